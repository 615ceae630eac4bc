package fencepost.host;

import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/** Converts values of wide schemas that are equal, but not the same, as of a transform that forgets its schemas. It prints how many. */
public final class JsonOfEqualSchemas {
    private static final int SCHEMAS = 1500, FIELDS = 1000;

    public static void main(String[] args) {
        Map<String, String> properties = Map.of("converter.type", "value");
        JsonConverter converter = new JsonConverter();
        converter.configure(properties, false);
        StreamingJson json = new StreamingJson(converter, properties);
        int converted = 0;
        for (int i = 0; i < SCHEMAS; i++) {
            SchemaBuilder builder = SchemaBuilder.struct();
            for (int field = 0; field < FIELDS; field++) builder.field("column_with_a_long_name_" + field, Schema.OPTIONAL_STRING_SCHEMA);
            Schema schema = builder.build();
            // The first is JsonConverter's own.
            for (int j = 0; j < 2; j++) {
                json.fromConnectData("t", new RecordHeaders(), schema, new Struct(schema));
                converted++;
            }
        }
        System.out.println(converted);
    }
}
