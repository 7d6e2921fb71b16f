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
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Kafka's own codecs behind a pipe. A line "echo NAME VERSION HEX" is decoded and encoded again, a line
 * "json NAME VERSION {...}" is read as Kafka's JSON form and encoded; the answer is HEX, or "! why".
 *
 * With what stands in front, as it goes over the wire or into a log, likewise: "frame NAME VERSION HEX" is a request or a
 * response behind its header, "record NAME VERSION HEX" one of the metadata log, "versioned NAME VERSION HEX" what has its
 * version in front. "pair NAME KEY-HEX VALUE-HEX", where NAME is the key's, is a record of a coordinator's log.
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

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String encode(Message message, short version) {
        return hex(MessageUtil.toByteBufferAccessor(message, version).buffer());
    }

    private static ByteBuffer bytes(String hex) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(hex));
    }

    private static ApiKeys api(String name) {
        for (ApiKeys key : ApiKeys.values()) {
            if (key.name.equals(name)) {
                return key;
            }
        }
        throw new IllegalArgumentException("no API " + name);
    }

    /** The header, encoded again; the body is left. */
    private static String header(String name, short version, ByteBuffer frame) {
        if (name.endsWith("Request")) {
            RequestHeader header = RequestHeader.parse(frame);
            if (header.apiKey() != api(name.substring(0, name.length() - 7)) || header.apiVersion() != version) {
                throw new IllegalArgumentException("a header of " + header.apiKey() + " " + header.apiVersion());
            }
            return encode(header.data(), header.headerVersion());
        }
        ApiKeys key = api(name.substring(0, name.length() - 8));
        ResponseHeader header = ResponseHeader.parse(frame, key.responseHeaderVersion(version));
        return encode(header.data(), header.headerVersion());
    }

    private static String metadataRecord(String name, short version, ByteBuffer from) {
        MetadataRecordSerde serde = new MetadataRecordSerde();
        ApiMessageAndVersion record = serde.read(new ByteBufferAccessor(from), from.remaining());
        if (!record.message().getClass().getSimpleName().equals(name) || record.version() != version) {
            throw new IllegalArgumentException("read as " + record);
        }
        ObjectSerializationCache sizes = new ObjectSerializationCache();
        ByteBuffer to = ByteBuffer.allocate(serde.recordSize(record, sizes));
        serde.write(record, sizes, new ByteBufferAccessor(to));
        to.flip();
        return hex(to);
    }

    private static String pair(String name, ByteBuffer key, ByteBuffer value) throws ClassNotFoundException {
        String place = cached(name, "").getPackageName();
        CoordinatorRecordSerde serde = place.contains(".group.") ? new GroupCoordinatorRecordSerde()
            : place.contains(".share.") ? new ShareCoordinatorRecordSerde() : new TransactionCoordinatorRecordSerde();
        CoordinatorRecord record = serde.deserialize(key, value);
        if (!record.key().getClass().getSimpleName().equals(name)) {
            throw new IllegalArgumentException("read as " + record);
        }
        return HexFormat.of().formatHex(serde.serializeKey(record)) + " "
            + HexFormat.of().formatHex(serde.serializeValue(record));
    }

    private static String answer(String line) throws Exception {
        String[] words = line.split(" ", 4);
        if (words[0].equals("pair")) {
            return pair(words[1], bytes(words[2]), bytes(words[3]));
        }
        short version = Short.parseShort(words[2]);
        if (words[0].equals("json")) {
            Method read = cached(words[1], "JsonConverter").getMethod("read", JsonNode.class, short.class);
            return encode((Message) read.invoke(null, MAPPER.readTree(words[3]), version), version);
        }
        ByteBuffer bytes = bytes(words.length > 3 ? words[3] : "");
        if (words[0].equals("record")) {
            return metadataRecord(words[1], version, bytes);
        }
        String front = words[0].equals("frame") ? header(words[1], version, bytes) : "";
        if (words[0].equals("versioned") && bytes.getShort() != version) {
            return "! another version in front";
        }
        Message message = (Message) cached(words[1], "").getConstructor(Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(bytes), version);
        if (bytes.remaining() > 0) {
            return "! " + bytes.remaining() + " bytes left";
        }
        if (words[0].equals("versioned")) {
            return hex(MessageUtil.toVersionPrefixedByteBuffer(version, (ApiMessage) message));
        }
        return front + encode(message, version);
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
