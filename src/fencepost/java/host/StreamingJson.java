package fencepost.host;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.SerializableString;
import com.fasterxml.jackson.core.io.SerializedString;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;

/**
 * Writes records with the same bytes as a JsonConverter, but without a tree of nodes for each record, and without
 * making the text of the schema again. The JsonConverter itself writes rare or invalid values, so that errors are its
 * own. It also writes the first record of each schema, because a connector may make a new schema for each record. For
 * one thread.
 */
final class StreamingJson {
    private static final JsonFactory FACTORY = new JsonFactory();
    private static final SerializedString SCHEMA = new SerializedString("schema"), PAYLOAD = new SerializedString("payload");
    /** The largest buffer that is kept from one record to the next, in bytes. */
    private static final int KEPT = 1 << 20;
    /**
     * The largest number of fields in all forms: transforms may repeatedly make wide schemas that are equal but not
     * identical.
     */
    private static final int MOST_FIELDS = 100_000;
    private static final Known SEEN = new Known(null, null), RARE = new Known(null, null);

    private final JsonConverter converter;
    private final boolean hasSchemas;
    private final int mostSchemas;
    private final Map<String, Object> config;
    private final Map<Schema, Known> schemas = new IdentityHashMap<>();
    private int fields;
    private ByteArrayOutputStream bytes;
    private JsonGenerator json;

    /** A schema's form, and the schema itself as JSON in `text`. */
    private record Known(JsonForm form, SerializableString text) { }

    StreamingJson(JsonConverter converter, Map<String, String> properties) {
        this.converter = converter;
        // Parsed without a JsonConverterConfig, which would log the properties again.
        config = JsonConverterConfig.configDef().parse(properties);
        hasSchemas = (Boolean) config.get(JsonConverterConfig.SCHEMAS_ENABLE_CONFIG);
        mostSchemas = (Integer) config.get(JsonConverterConfig.SCHEMAS_CACHE_SIZE_CONFIG);
    }

    byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
        if (schema == null && value == null) return null;
        Known known = known(schema);
        byte[] written = known.form == null ? null : written(known, value);
        return written == null ? converter.fromConnectData(topic, headers, schema, value) : written;
    }

    private Known known(Schema schema) {
        Known known = schemas.get(schema);
        if (known == null) {
            if (schemas.size() >= mostSchemas || fields > MOST_FIELDS) {
                schemas.clear();
                fields = 0;
            }
            schemas.put(schema, SEEN);
            return SEEN;
        }
        if (known == SEEN) schemas.put(schema, known = made(schema));
        return known;
    }

    private Known made(Schema schema) {
        try {
            JsonForms forms = new JsonForms(config);
            Known made = new Known(forms.of(schema), hasSchemas ? text(schema) : null);
            fields += forms.fields();
            return made;
        } catch (IOException | RuntimeException rare) {
            return RARE;
        }
    }

    private SerializedString text(Schema schema) throws IOException {
        // The converter's own cache treats equal schemas as the same, although their parameters may have another order.
        return new SerializedString(new String(Wire.JSON.writeValueAsBytes(converter.asJsonSchema(schema)), StandardCharsets.UTF_8));
    }

    /** Returns the bytes of a record; null if the value is rare or wrong. */
    private byte[] written(Known known, Object value) {
        try {
            if (json == null) {
                bytes = new ByteArrayOutputStream();
                json = FACTORY.createGenerator(bytes).setRootValueSeparator(null);
            }
            bytes.reset();
            write(known, value);
            json.flush();
            byte[] record = bytes.toByteArray();
            if (record.length > KEPT) forget();
            return record;
        } catch (IOException | RuntimeException rare) {
            forget();
            return null;
        }
    }

    private void forget() {
        json = null;
        bytes = null;
    }

    private void write(Known known, Object value) throws IOException {
        if (!hasSchemas) {
            known.form.write(value, json);
            return;
        }
        json.writeStartObject();
        json.writeFieldName(SCHEMA);
        json.writeRawValue(known.text);
        json.writeFieldName(PAYLOAD);
        known.form.write(value, json);
        json.writeEndObject();
    }
}
