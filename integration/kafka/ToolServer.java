import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command line tools one after the other in one JVM, because starting a JVM costs more
 * than most of the commands do.
 *
 * A request is one line: files for stdin, stdout and stderr, the main class and its arguments,
 * separated by tabs (backslash, tab and newline within a field are escaped). The reply is one line
 * with the exit code. Commands that would end the process end by an error that is caught here.
 */
public final class ToolServer {
    private static final class Exited extends Error {
        final int code;

        Exited(int code) {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    private static volatile int exitCode;
    private static final List<Runnable> exitHooks = new CopyOnWriteArrayList<>();

    private static void exit(int code) {
        if (exitCode < 0)
            exitCode = code;                    /* the first exit is the one a shell would see */
        throw new Exited(code);
    }

    private static String unescape(String field) {
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < field.length(); i++) {
            char c = field.charAt(i);
            if (c != '\\') {
                out.append(c);
                continue;
            }
            c = field.charAt(++i);
            out.append(c == 't' ? '\t' : c == 'n' ? '\n' : c);
        }
        return out.toString();
    }

    /* What a command leaves for the end of its process happens at its end here: the console producer
     * sends its last batches in such a hook. */
    private static void runExitHooks() {
        for (Runnable hook : exitHooks) {
            try {
                hook.run();
            } catch (Exited e) {
                /* already ending */
            }
        }
        exitHooks.clear();
    }

    private static int run(String mainClass, String[] args) {
        exitCode = -1;
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                e.getCause().printStackTrace();
                return 1;
            }
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            return 127;
        }
        return Math.max(exitCode, 0);
    }

    public static void main(String[] argv) throws Exception {
        PrintStream replies = System.out;
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> exitHooks.add(hook));
        replies.println("ready");
        replies.flush();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] fields = line.split("\t", -1);
            for (int i = 0; i < fields.length; i++)
                fields[i] = unescape(fields[i]);
            int code;
            try (InputStream in = new FileInputStream(fields[0]);
                 PrintStream out = new PrintStream(
                     new BufferedOutputStream(new FileOutputStream(fields[1]), 65536), false, "UTF-8");
                 PrintStream err = new PrintStream(new FileOutputStream(fields[2]), true, "UTF-8")) {
                System.setIn(in);
                System.setOut(out);
                System.setErr(err);
                code = run(fields[3], Arrays.copyOfRange(fields, 4, fields.length));
                runExitHooks();
                out.flush();
            }
            replies.println(code);
            replies.flush();
        }
        Runtime.getRuntime().halt(0);           /* tools leave threads and shutdown hooks behind */
    }
}
