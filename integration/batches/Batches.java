import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.PrimitiveRef;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Kafka's own record batches behind a pipe, with the lines that tests/protocol/batch_pipe.c describes:
 * "read HEX" gives TEXT, "build CODEC TEXT" gives HEX, "judge KEYS_REQUIRED STAMP_TIME HEX" gives an error's name.
 */
public class Batches {
    private static final HexFormat HEX = HexFormat.of();
    private static final long NOW_MS = 1700000000000L;

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }

    private static byte[] unhex(String text) {
        return text.equals("-") ? null : HEX.parseHex(text);
    }

    private static String read(String hex) {
        MutableRecordBatch batch = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex))).batches().iterator().next();
        batch.ensureValid();
        List<String> records = new ArrayList<>();
        for (Record record : batch) {
            StringBuilder text = new StringBuilder();
            text.append(record.offset()).append(',').append(record.timestamp()).append(',');
            text.append(hex(record.key())).append(',').append(hex(record.value()));
            for (Header header : record.headers()) {
                text.append(',').append(HEX.formatHex(header.key().getBytes())).append('=');
                text.append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
            }
            records.add(text.toString());
        }
        return String.join(";", records);
    }

    private static String build(String codec, String text) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), RecordBatch.CURRENT_MAGIC_VALUE,
            Compression.of(CompressionType.forId(Integer.parseInt(codec))).build(), TimestampType.CREATE_TIME, 0L);
        for (String record : text.split(";")) {
            String[] fields = record.split(",", -1);
            Header[] headers = new Header[fields.length - 4];
            for (int i = 0; i < headers.length; i++) {
                String[] pair = fields[4 + i].split("=", -1);
                headers[i] = new RecordHeader(new String(unhex(pair[0])), unhex(pair[1]));
            }
            builder.append(Long.parseLong(fields[1]), unhex(fields[2]), unhex(fields[3]), headers);
        }
        return hex(builder.build().buffer());
    }

    private static Object silent(Class<?> type) {
        return Proxy.newProxyInstance(Batches.class.getClassLoader(), new Class<?>[] {type},
            (proxy, method, arguments) -> method.getReturnType() == long.class ? NOW_MS : null);
    }

    private static String judge(boolean keysRequired, boolean stampTime, String hex) {
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex)));
            MutableRecordBatch batch = records.batches().iterator().next();
            batch.ensureValid();
            CompressionType type = batch.compressionType();
            new LogValidator(records, new TopicPartition("t", 0), (Time) silent(Time.class), type, Compression.of(type).build(),
                keysRequired, (byte) 2, stampTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME, Long.MAX_VALUE,
                3600000L, 0, AppendOrigin.CLIENT).validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0),
                    (LogValidator.MetricsRecorder) silent(LogValidator.MetricsRecorder.class), BufferSupplier.NO_CACHING);
            return "NONE";
        } catch (RecordValidationException e) {
            return Errors.forException(e.invalidException()).name();
        } catch (Throwable e) {
            return Errors.forException(e).name();
        }
    }

    private static String answer(String[] words) {
        switch (words[0]) {
            case "read":
                return read(words[1]);
            case "build":
                return build(words[1], words[2]);
            case "judge":
                return judge(words[1].equals("1"), words[2].equals("1"), words[3]);
            default:
                return "! " + words[0] + "?";
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String result;
            try {
                result = answer(line.split(" "));
            } catch (RuntimeException e) {
                result = "! " + e;
            }
            System.out.println(result.replace('\n', ' '));
        }
    }
}
