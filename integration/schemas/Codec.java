import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Kafka's own codecs behind a pipe. A line "echo NAME VERSION HEX" is decoded and encoded again, a line
 * "json NAME VERSION {...}" is read as Kafka's JSON form and encoded; the answer is HEX, or "! why".
 */
public class Codec {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
    };
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Map<String, Class<?>> CLASSES = new HashMap<>();

    private static Class<?> find(String name, String suffix) throws ClassNotFoundException {
        for (String place : PACKAGES) {
            for (String end : new String[] {"Data" + suffix, suffix}) {
                try {
                    return Class.forName(place + name + end);
                } catch (ClassNotFoundException e) {
                    // another place
                }
            }
        }
        throw new ClassNotFoundException(name + suffix);
    }

    private static Class<?> cached(String name, String suffix) throws ClassNotFoundException {
        Class<?> found = CLASSES.get(name + suffix);
        if (found == null) {
            found = find(name, suffix);
            CLASSES.put(name + suffix, found);
        }
        return found;
    }

    private static String encode(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String answer(String line) throws Exception {
        String[] words = line.split(" ", 4);
        short version = Short.parseShort(words[2]);
        if (words[0].equals("json")) {
            Method read = cached(words[1], "JsonConverter").getMethod("read", JsonNode.class, short.class);
            return encode((Message) read.invoke(null, MAPPER.readTree(words[3]), version), version);
        }
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words.length > 3 ? words[3] : ""));
        Message message = (Message) cached(words[1], "").getConstructor(Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(bytes), version);
        if (bytes.remaining() > 0) {
            return "! " + bytes.remaining() + " bytes left";
        }
        return encode(message, version);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String text;
            try {
                text = answer(line);
            } catch (InvocationTargetException e) {
                text = "! " + e.getCause();
            } catch (Exception e) {
                text = "! " + e;
            }
            out.println(text.replace('\n', ' '));
        }
        out.flush();
    }
}
