import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Group members with Apache Kafka's own consumer, as many in one JVM as are asked for (members.py has the commands
 * and what is said).
 *
 * usage: GroupMember BOOTSTRAP
 */
public final class GroupMember {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final String name;
    private final Consumer<String, String> consumer;
    private final Thread thread = new Thread(this::run);
    private volatile boolean over;
    private final TreeSet<String> held = new TreeSet<>();
    private long committed;

    private synchronized static void say(String name, Object what) {
        OUT.println(name + " " + what);
    }

    private GroupMember(String bootstrap, Map<String, String> wanted) {
        name = wanted.get("name");
        boolean classic = wanted.get("protocol").equals("classic");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", wanted.get("group"));
        settings.put("group.protocol", wanted.get("protocol"));
        settings.put("client.id", name);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("metadata.max.age.ms", "1000");
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        if (wanted.containsKey("instance"))
            settings.put("group.instance.id", wanted.get("instance"));
        if (classic) {                          /* the other protocol has these from the broker */
            settings.put("partition.assignment.strategy", ASSIGNORS.get(wanted.get("assignor")));
            settings.put("session.timeout.ms", wanted.get("session_ms"));
            settings.put("heartbeat.interval.ms", "500");
        } else if (wanted.containsKey("assignor")) {
            settings.put("group.remote.assignor", wanted.get("assignor"));
        }
        consumer = new KafkaConsumer<>(settings);
        Listener listener = new Listener();
        String pattern = wanted.get("pattern");
        if (pattern == null)
            consumer.subscribe(List.of(wanted.get("topic")), listener);
        else if (classic)
            consumer.subscribe(Pattern.compile(pattern), listener);
        else
            consumer.subscribe(new SubscriptionPattern(pattern), listener);
        thread.start();
    }

    private final class Listener implements ConsumerRebalanceListener {
        private void tell(Collection<TopicPartition> places, boolean more) {
            List<String> named = places.stream().map(TopicPartition::toString).collect(Collectors.toList());
            if (more)
                held.addAll(named);
            else
                held.removeAll(named);
            say(name, "has " + String.join(",", held));
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> places) {
            tell(places, true);
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> places) {
            tell(places, false);
        }
    }

    private void run() {
        long read = 0;
        try {
            while (!over) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<String, String> record : records)
                    say(name, "read " + record.topic() + "-" + record.partition() + " " + record.offset() + " " + record.value());
                read += records.count();
                if (read == committed)
                    continue;
                try {
                    consumer.commitSync();
                    committed = read;
                    say(name, "committed " + committed);
                } catch (RebalanceInProgressException e) {
                    /* the next poll takes part in it, and then this is tried again */
                }
            }
            consumer.close();
            say(name, "closed");
        } catch (KafkaException e) {
            say(name, "failed " + e);
        }
    }

    private void close() throws InterruptedException {
        over = true;
        thread.join();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, GroupMember> members = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Map<String, String> wanted = new HashMap<>();
            String[] words = line.split(" ");
            for (int i = 1; i < words.length; i++)
                wanted.put(words[i].split("=", 2)[0], words[i].split("=", 2)[1]);
            if (words[0].equals("open"))
                members.put(wanted.get("name"), new GroupMember(arguments[0], wanted));
            else
                members.remove(wanted.get("name")).over = true;
        }
        for (GroupMember member : members.values())
            member.over = true;
        for (GroupMember member : members.values())
            member.close();
    }
}
