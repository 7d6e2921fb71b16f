import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/** The library of Kafka's broker for expressions, behind a pipe, with the lines that tests/coordinator/regex_pipe.c has. */
public class Expressions {
    static String text(String hex) {
        return hex.equals("-") ? "" : new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    static String answer(String[] words) {
        StringBuilder matches = new StringBuilder();
        try {
            Pattern pattern = Pattern.compile(text(words[0]));
            for (int i = 1; i < words.length; i++)
                matches.append(pattern.matches(text(words[i])) ? '1' : '0');
            return matches.toString();
        } catch (PatternSyntaxException wrong) {
            return "refused " + wrong.getDescription();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            out.append(answer(line.split(" "))).append('\n');
        System.out.print(out);
    }
}
