package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Compares what the pipeline makes of random records with Kafka Connect's JsonConverter. The arguments are a seed, how many
 * records, and properties of the converter. It prints how many of them were refused, all with the same errors, and how many
 * ordinary values a StreamingJson left to its converter.
 */
public final class JsonComparison {
    private static final String REQUEST = """
        {"converters": {
          "key.converter": {"jars": [], "class": "org.apache.kafka.connect.json.JsonConverter"},
          "value.converter": {"jars": [], "class": "org.apache.kafka.connect.json.JsonConverter"},
          "header.converter": {"jars": [], "class": "org.apache.kafka.connect.storage.SimpleHeaderConverter", "properties": {}}},
         "transforms": [],
         "errors": {"tolerates": true, "letters": false, "contents": false, "retry.timeout.ms": 0, "retry.delay.max.ms": 0}}
        """;
    private static final int DEPTH = 3;

    /** The bytes of a key and a value, or the error in place of them. */
    private record Outcome(String bytes, String error) { }

    private static final class Counted extends JsonConverter {
        int calls;

        @Override
        public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
            calls++;
            return super.fromConnectData(topic, headers, schema, value);
        }
    }

    public static void main(String[] args) throws Exception {
        long seed = Long.parseLong(args[0]);
        int count = Integer.parseInt(args[1]);
        Map<String, String> properties = new HashMap<>();
        for (String property : Arrays.asList(args).subList(2, args.length)) properties.put(property.split("=")[0], property.split("=")[1]);
        System.out.println(compared(properties, seed, count) + " " + left(properties, seed, count));
    }

    /** How many were refused. Raises AssertionError for bytes, or an error, that is not JsonConverter's. */
    private static int compared(Map<String, String> properties, long seed, int count) throws Exception {
        RecordPipeline pipeline = pipeline(properties);
        JsonConverter keys = converter(new JsonConverter(), properties, true), values = converter(new JsonConverter(), properties, false);
        Random random = new Random(seed);
        RandomData data = new RandomData(seed, 0.03);
        List<Schema> schemas = new ArrayList<>();
        int refused = 0;
        for (int i = 0; i < count; i++) {
            if (random.nextDouble() < 0.05 || schemas.isEmpty()) schemas.add(data.schema(DEPTH));
            Schema keySchema = one(schemas, random), schema = one(schemas, random);
            SourceRecord record = new SourceRecord(
                Map.of(), Map.of(), "t", null, keySchema, data.value(keySchema, DEPTH), schema, data.value(schema, DEPTH));
            Outcome expected = outcome(keys, values, record);
            Outcome found = outcome(pipeline.columns(List.of(record), Boundaries.OF_WORKER).get(0));
            if (!expected.equals(found)) throw new AssertionError("Record " + i + ": " + found + " in place of " + expected);
            if (found.error != null) refused++;
        }
        return refused;
    }

    /** How many ordinary values a StreamingJson leaves to its converter, beside the first of each schema. */
    private static int left(Map<String, String> properties, long seed, int count) {
        Counted converter = new Counted();
        converter.configure(properties, false);
        Map<String, String> own = new HashMap<>(properties);
        own.put("converter.type", "value");
        StreamingJson json = new StreamingJson(converter, own);
        RandomData data = new RandomData(seed, 0);
        int schemas = 100;
        for (int i = 0; i < schemas; i++) {
            Schema schema = i == 0 ? null : data.schema(DEPTH);
            for (int row = 0; row < Math.max(20, count / schemas); row++)
                json.fromConnectData("t", new RecordHeaders(), schema, data.value(schema, DEPTH));
        }
        return converter.calls - schemas;
    }

    private static Schema one(List<Schema> schemas, Random random) {
        // The last ones more often: the pool grows.
        return schemas.get(Math.max(0, schemas.size() - 1 - random.nextInt(20)));
    }

    private static RecordPipeline pipeline(Map<String, String> properties) throws Exception {
        JsonNode request = Wire.JSON.readTree(REQUEST);
        for (String role : List.of("key", "value")) {
            Map<String, String> own = new HashMap<>(properties);
            own.put("converter.type", role);
            ((ObjectNode) request.get("converters").get(role + ".converter")).set("properties", Wire.JSON.valueToTree(own));
        }
        return new RecordPipeline(request, new OwnMetrics("c", "0"));
    }

    private static JsonConverter converter(JsonConverter converter, Map<String, String> properties, boolean isKey) {
        converter.configure(properties, isKey);
        return converter;
    }

    private static Outcome outcome(JsonConverter keys, JsonConverter values, SourceRecord record) {
        try {
            byte[] key = keys.fromConnectData("t", new RecordHeaders(), record.keySchema(), record.key());
            byte[] value = values.fromConnectData("t", new RecordHeaders(), record.valueSchema(), record.value());
            return new Outcome(both(key, value), null);
        } catch (RuntimeException error) {
            return new Outcome(null, error.getClass().getName() + ": " + error.getMessage());
        }
    }

    private static Outcome outcome(RecordColumns columns) {
        ObjectNode answer = Wire.JSON.createObjectNode();
        List<ByteBuffer> parts = new ArrayList<>();
        columns.describe(answer, parts);
        for (JsonNode one : answer.get("refused"))
            return new Outcome(null, one.get("exception").asText() + ": " + one.get("message").asText());
        ByteBuffer all = ByteBuffer.allocate(parts.stream().mapToInt(ByteBuffer::remaining).sum()).order(ByteOrder.LITTLE_ENDIAN);
        parts.forEach(all::put);
        Map<String, ByteBuffer> buffers = new HashMap<>();
        int at = 0;
        for (JsonNode buffer : answer.get("buffers")) {
            int size = buffer.get(1).asInt();
            buffers.put(buffer.get(0).asText(), all.slice(at, size).order(ByteOrder.LITTLE_ENDIAN));
            at += (size + 7) / 8 * 8;
        }
        return new Outcome(both(onlyItem("key", buffers), onlyItem("value", buffers)), null);
    }

    /** The bytes of a column with one row. */
    private static byte[] onlyItem(String name, Map<String, ByteBuffer> buffers) {
        ByteBuffer valid = buffers.get(name + ".valid");
        if (!buffers.containsKey(name) || valid != null && valid.get(0) == 0) return null;
        byte[] bytes = new byte[buffers.get(name + ".ends").getInt(4)];
        buffers.get(name).get(bytes);
        return bytes;
    }

    private static String both(byte[] key, byte[] value) {
        return shown(key) + '\n' + shown(value);
    }

    private static String shown(byte[] bytes) {
        return bytes == null ? "no bytes" : new String(bytes, StandardCharsets.UTF_8);
    }
}
