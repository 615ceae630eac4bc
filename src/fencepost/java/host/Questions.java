package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Questions about a plugin that is not started. For each question, a new object of the plugin's class is made, and
 * closed if possible.
 */
final class Questions {
    private static final Map<String, Class<?>> BASES = Map.of(
        SourceConnector.class.getName(), SourceConnector.class, Transformation.class.getName(), Transformation.class,
        Predicate.class.getName(), Predicate.class, Converter.class.getName(), Converter.class,
        HeaderConverter.class.getName(), HeaderConverter.class);

    private Questions() { }

    static void answer(String question, JsonNode request, ObjectNode answer) throws Exception {
        PluginLoader loader = PluginLoader.of(request);
        Thread.currentThread().setContextClassLoader(loader);
        Object plugin = loader.create(request.get("class").asText(), BASES.get(request.get("base").asText()));
        try {
            answer(question, plugin, request, answer);
        } finally {
            Utils.maybeCloseQuietly(plugin, plugin.getClass().getName());
        }
    }

    private static void answer(String question, Object plugin, JsonNode request, ObjectNode answer) {
        Map<String, String> config = Wire.properties(request.path("config"));
        switch (question) {
            case "about" -> {
                answer.put("version", plugin instanceof Versioned versioned ? versioned.version() : null);
                if (plugin instanceof SourceConnector connector) {
                    Class<?> task = connector.taskClass();
                    answer.put("task", task.getName()).put("metadata", overridesCommitRecord(task));
                }
            }
            case "config" -> definitions(definitions(plugin), answer.putArray("keys"));
            case "validate" -> {
                List<ConfigValue> found = plugin instanceof SourceConnector connector
                    ? connector.validate(config).configValues() : definitions(plugin).validate(config);
                values(found, answer.putArray("values"));
            }
            default -> answer(question, (SourceConnector) plugin, config, request, answer);
        }
    }

    private static void answer(
        String question, SourceConnector connector, Map<String, String> config, JsonNode request, ObjectNode answer) {
        switch (question) {
            case "exactlyOnceSupport" -> answer.put("answer", name(connector.exactlyOnceSupport(config)));
            case "canDefineTransactionBoundaries" -> answer.put("answer", name(connector.canDefineTransactionBoundaries(config)));
            case "alterOffsets" -> {
                Map<Map<String, ?>, Map<String, ?>> wanted = new HashMap<>();
                for (JsonNode pair : request.get("offsets")) wanted.put(Offsets.decoded(pair.get(0)), Offsets.decoded(pair.get(1)));
                answer.put("answer", connector.alterOffsets(config, wanted));
            }
            default -> throw new IllegalArgumentException(question);
        }
    }

    /** Returns the definitions of a plugin; none if the class returns null. */
    private static ConfigDef definitions(Object plugin) {
        ConfigDef found;
        if (plugin instanceof SourceConnector connector) found = connector.config();
        else if (plugin instanceof Transformation<?> transform) found = transform.config();
        else if (plugin instanceof Predicate<?> predicate) found = predicate.config();
        else if (plugin instanceof Converter converter) found = converter.config();
        else found = ((HeaderConverter) plugin).config();
        return found == null ? new ConfigDef() : found;
    }

    private static String name(Enum<?> value) {
        return value == null ? null : value.name();
    }

    /**
     * Whether a task overrides `commitRecord`. The older method of that name, with the record alone, is not called:
     * Kafka Connect 4 does not know it any more.
     */
    static boolean overridesCommitRecord(Class<?> task) {
        return overrides(task, "commitRecord", SourceRecord.class, RecordMetadata.class);
    }

    /** Whether a task overrides `commit`. */
    static boolean overridesCommit(Class<?> task) {
        return overrides(task, "commit");
    }

    private static boolean overrides(Class<?> task, String method, Class<?>... parameters) {
        try {
            return task.getMethod(method, parameters).getDeclaringClass() != org.apache.kafka.connect.source.SourceTask.class;
        } catch (NoSuchMethodException absent) {
            return false;
        }
    }

    private static void definitions(ConfigDef given, ArrayNode keys) {
        for (ConfigDef.ConfigKey key : given.configKeys().values()) {
            if (key.internalConfig) continue;
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            keys.addObject().put("name", key.name).put("type", key.type.name()).put("importance", key.importance.name())
                .put("documentation", key.documentation).put("group", key.group).put("order", key.orderInGroup)
                .put("width", key.width.name()).put("display", key.displayName).put("required", !key.hasDefault())
                .put("default", value).set("dependents", Wire.JSON.valueToTree(key.dependents));
        }
    }

    private static void values(List<ConfigValue> found, ArrayNode values) {
        for (ConfigValue value : found) {
            ObjectNode one = values.addObject().put("name", value.name()).put("visible", value.visible());
            one.put("value", shown(value.value()));
            one.set("errors", Wire.JSON.valueToTree(value.errorMessages()));
            one.set("recommended", Wire.JSON.valueToTree(value.recommendedValues().stream().map(Questions::shown).toList()));
        }
    }

    private static String shown(Object value) {
        if (value instanceof Class<?> type) return type.getName();
        if (value instanceof List<?> list) return String.join(",", list.stream().map(String::valueOf).toList());
        return value == null ? null : value.toString();
    }
}
