package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/**
 * Source partitions and offsets as JSON without schemas, the form that Connect stores. Whole numbers are read as Long.
 */
final class Offsets implements OffsetStorageReader {
    private static final JsonConverter JSON = converter();
    private final Events events;

    Offsets(Events events) {
        this.events = events;
    }

    private static JsonConverter converter() {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), false);
        return converter;
    }

    /**
     * Returns the JSON text; null for null. Bytes become base64 texts, and are read as texts. Throws DataException for
     * values that Connect does not store either.
     */
    static String encoded(Map<String, ?> data) {
        if (data == null) return null;
        for (Map.Entry<?, ?> entry : data.entrySet()) {
            Object value = entry.getValue();
            Schema.Type type = value == null ? null : ConnectSchema.schemaType(value.getClass());
            boolean storable = value == null || type != null && type.isPrimitive();
            if (!(entry.getKey() instanceof String) || !storable)
                throw new DataException("A source partition or offset has names that are texts, and texts, numbers, booleans, bytes or null as "
                    + "values, but the connector gave " + entry.getKey() + " a value of " + (value == null ? null : value.getClass().getName()));
        }
        return new String(JSON.fromConnectData("offsets", null, data), StandardCharsets.UTF_8);
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> decoded(JsonNode text) {
        if (text.isNull()) return null;
        return (Map<String, Object>) JSON.toConnectData("offsets", text.asText().getBytes(StandardCharsets.UTF_8)).value();
    }

    @Override
    public <T> Map<String, Object> offset(Map<String, T> partition) {
        return offsets(Collections.singletonList(partition)).get(partition);
    }

    @Override
    public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
        ObjectNode question = Wire.JSON.createObjectNode().put("event", "offsets");
        ArrayNode wanted = question.putArray("partitions");
        partitions.forEach(partition -> wanted.add(encoded(partition)));
        Iterator<JsonNode> answers = events.ask(question).get("offsets").iterator();
        Map<Map<String, T>, Map<String, Object>> found = new HashMap<>();
        partitions.forEach(partition -> found.put(partition, decoded(answers.next())));
        return found;
    }
}
