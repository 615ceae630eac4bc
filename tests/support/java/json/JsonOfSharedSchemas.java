package fencepost.host;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/** Converts a value of a schema that has others in very many places, as a recursive type that was unrolled. It prints the JSON. */
public final class JsonOfSharedSchemas {
    private static final int LEVELS = 60;

    public static void main(String[] args) {
        Map<String, String> properties = Map.of("schemas.enable", "false", "converter.type", "value");
        JsonConverter converter = new JsonConverter();
        converter.configure(properties, false);
        StreamingJson json = new StreamingJson(converter, properties);
        Schema schema = Schema.OPTIONAL_STRING_SCHEMA;
        for (int i = 0; i < LEVELS; i++)
            schema = SchemaBuilder.struct().optional().field("left", schema).field("right", schema).build();
        // The first is JsonConverter's own.
        for (int i = 0; i < 2; i++) {
            byte[] bytes = json.fromConnectData("t", new RecordHeaders(), schema, new Struct(schema));
            System.out.println(new String(bytes, StandardCharsets.UTF_8));
        }
    }
}
