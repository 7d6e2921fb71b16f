import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/** Every key of Kafka's own definitions: "scope TAB name TAB type TAB default TAB validator TAB internal". */
public class Keys {
    private static String text(ConfigDef.ConfigKey key) {
        if (key.defaultValue == null || key.defaultValue == ConfigDef.NO_DEFAULT_VALUE) {
            return "null";
        }
        return ConfigDef.convertToString(key.defaultValue, key.type);
    }

    private static void print(String scope, ConfigDef definition, Map<String, String> modes) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            System.out.println(String.join("\t", modes == null ? scope : modes.getOrDefault(key.name, scope), key.name,
                key.type.toString().toLowerCase(), text(key),
                key.validator == null ? "" : key.validator.toString().replace('\n', ' '),
                String.valueOf(key.internalConfig)));
        }
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] args) throws Exception {
        Map<String, String> modes = (Map<String, String>) Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig")
            .getMethod("dynamicConfigUpdateModes").invoke(null);
        print("read-only", (ConfigDef) Class.forName("kafka.server.KafkaConfig").getMethod("configDef").invoke(null), modes);
        print("topic", (ConfigDef) Class.forName("org.apache.kafka.storage.internals.log.LogConfig")
            .getMethod("configDefCopy").invoke(null), null);
        for (Field field : Class.forName("org.apache.kafka.coordinator.group.GroupConfig").getDeclaredFields()) {
            if (field.getType() == ConfigDef.class) {
                field.setAccessible(true);
                print("group", (ConfigDef) field.get(null), null);
            }
        }
        Map<String, List<?>> synonyms = (Map<String, List<?>>) Class.forName(
            "org.apache.kafka.server.config.ServerTopicConfigSynonyms").getField("ALL_TOPIC_CONFIG_SYNONYMS").get(null);
        for (Map.Entry<String, List<?>> entry : new TreeMap<>(synonyms).entrySet()) {
            for (Object synonym : entry.getValue()) {
                Method name = synonym.getClass().getMethod("name");
                System.out.println("synonym\t" + entry.getKey() + "\t" + name.invoke(synonym));
            }
        }
    }
}
