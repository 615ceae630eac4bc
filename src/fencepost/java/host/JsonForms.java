package fencepost.host;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.io.SerializedString;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.json.DecimalFormat;
import org.apache.kafka.connect.json.JsonConverterConfig;

/**
 * The forms of a schema and of the schemas in it: a form writes the values of one schema as JSON. The bytes are the
 * same as JsonConverter 4.1.1 writes, but no tree of nodes is made. A schema for which this is not certain has no form.
 * Any exception, when a form is made or used, means that the schema or the value is invalid or rare: then JsonConverter
 * writes the value.
 */
final class JsonForms {
    private static final Set<String> LOGICAL =
        Set.of(Decimal.LOGICAL_NAME, Date.LOGICAL_NAME, Time.LOGICAL_NAME, Timestamp.LOGICAL_NAME);

    private final boolean hasNumericDecimals;
    private final boolean replacesNulls;
    /** The forms made so far. The same schema may occur very often within another one. */
    private final Map<Schema, JsonForm> forms = new IdentityHashMap<>();
    private int fields;

    /** `config` has the parsed properties of a JsonConverter. */
    JsonForms(Map<String, Object> config) {
        hasNumericDecimals = DecimalFormat.NUMERIC.name().equalsIgnoreCase((String) config.get(JsonConverterConfig.DECIMAL_FORMAT_CONFIG));
        replacesNulls = (Boolean) config.get(JsonConverterConfig.REPLACE_NULL_WITH_DEFAULT_CONFIG);
    }

    /** Says that there is no form. It has no stack trace, because it is always caught. */
    private static final class Rare extends RuntimeException {
        static final Rare RARE = new Rare();

        private Rare() {
            super(null, null, false, false);
        }
    }

    /** Returns the form of a schema. For null, it is the form of values without a schema. */
    JsonForm of(Schema schema) {
        if (schema == null) return this::writeByClass;
        JsonForm form = forms.get(schema);
        if (form == null) forms.put(schema, form = made(schema));
        return form;
    }

    /** Returns the number of fields in all structs that have forms. Memory grows with this number. */
    int fields() {
        return fields;
    }

    private JsonForm made(Schema schema) {
        // Schemas of other classes may change, or contain themselves.
        if (schema.getClass() != ConnectSchema.class) throw Rare.RARE;
        JsonForm present = LOGICAL.contains(String.valueOf(schema.name())) ? logical(schema) : plain(schema.type(), schema);
        Object replacement = replacesNulls ? schema.defaultValue() : null;
        boolean isOptional = schema.isOptional();
        return (value, json) -> {
            Object given = value == null ? replacement : value;
            if (given != null) present.write(given, json);
            else if (isOptional) json.writeNull();
            else throw Rare.RARE;
        };
    }

    private JsonForm logical(Schema schema) {
        return switch (schema.name()) {
            case Decimal.LOGICAL_NAME -> hasNumericDecimals
                ? (value, json) -> json.writeNumber((BigDecimal) value)
                : (value, json) -> json.writeBinary(Decimal.fromLogical(schema, (BigDecimal) value));
            case Date.LOGICAL_NAME -> (value, json) -> json.writeNumber(Date.fromLogical(schema, (java.util.Date) value));
            case Time.LOGICAL_NAME -> (value, json) -> json.writeNumber(Time.fromLogical(schema, (java.util.Date) value));
            default -> (value, json) -> json.writeNumber(Timestamp.fromLogical(schema, (java.util.Date) value));
        };
    }

    /** Returns the form of a type's values, except null. */
    private JsonForm plain(Schema.Type type, Schema schema) {
        return switch (type) {
            case INT8 -> (value, json) -> json.writeNumber((Byte) value);
            case INT16 -> (value, json) -> json.writeNumber((Short) value);
            case INT32 -> (value, json) -> json.writeNumber((Integer) value);
            case INT64 -> (value, json) -> json.writeNumber((Long) value);
            case FLOAT32 -> (value, json) -> json.writeNumber((Float) value);
            case FLOAT64 -> (value, json) -> json.writeNumber((Double) value);
            case BOOLEAN -> (value, json) -> json.writeBoolean((Boolean) value);
            case STRING -> (value, json) -> json.writeString((String) value);
            // JsonConverter writes the whole array behind a buffer, whatever the buffer's position and limit.
            case BYTES -> (value, json) -> json.writeBinary(value instanceof ByteBuffer buffer ? buffer.array() : (byte[]) value);
            case ARRAY -> array(of(schema.valueSchema()));
            case MAP -> map(schema.keySchema(), of(schema.valueSchema()));
            case STRUCT -> struct(schema);
        };
    }

    private static JsonForm array(JsonForm items) {
        return (value, json) -> {
            json.writeStartArray();
            for (Object item : (Collection<?>) value) items.write(item, json);
            json.writeEndArray();
        };
    }

    private JsonForm map(Schema keySchema, JsonForm values) {
        if (keySchema.type() != Schema.Type.STRING) return pairs(of(keySchema), values);
        if (LOGICAL.contains(String.valueOf(keySchema.name()))) throw Rare.RARE;
        return object(values);
    }

    private static JsonForm object(JsonForm values) {
        return (value, json) -> {
            Set<String> names = new HashSet<>();
            json.writeStartObject();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                String name = (String) entry.getKey();
                // An IdentityHashMap may have equal names. JsonConverter writes the last of them, at the place of the
                // first.
                if (name == null || !names.add(name)) throw Rare.RARE;
                json.writeFieldName(name);
                values.write(entry.getValue(), json);
            }
            json.writeEndObject();
        };
    }

    private static JsonForm pairs(JsonForm keys, JsonForm values) {
        return (value, json) -> {
            json.writeStartArray();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                json.writeStartArray();
                keys.write(entry.getKey(), json);
                values.write(entry.getValue(), json);
                json.writeEndArray();
            }
            json.writeEndArray();
        };
    }

    private JsonForm struct(Schema schema) {
        Field[] fields = schema.fields().toArray(Field[]::new);
        SerializedString[] names = new SerializedString[fields.length];
        JsonForm[] forms = new JsonForm[fields.length];
        Set<String> distinct = new HashSet<>();
        this.fields += fields.length;
        for (int i = 0; i < fields.length; i++) {
            String name = fields[i].name();
            // Jackson escapes surrogate pairs in texts, but not in a SerializedString, whose bytes are made beforehand.
            if (!distinct.add(name) || name.chars().anyMatch(c -> Character.isSurrogate((char) c))) throw Rare.RARE;
            names[i] = new SerializedString(name);
            forms[i] = of(fields[i].schema());
        }
        return (value, json) -> {
            Struct struct = (Struct) value;
            if (struct.getClass() != Struct.class || !schema.equals(struct.schema())) throw Rare.RARE;
            json.writeStartObject();
            for (int i = 0; i < fields.length; i++) {
                json.writeFieldName(names[i]);
                // `get` with a Field replaces nulls by defaults, and need not look up the name.
                forms[i].write(replacesNulls ? struct.get(fields[i]) : struct.getWithoutDefault(fields[i].name()), json);
            }
            json.writeEndObject();
        };
    }

    private void writeByClass(Object value, JsonGenerator json) throws IOException {
        if (value == null) {
            json.writeNull();
            return;
        }
        Schema.Type type = ConnectSchema.schemaType(value.getClass());
        JsonForm form = switch (type) {
            case ARRAY -> array(this::writeByClass);
            case MAP -> ((Map<?, ?>) value).keySet().stream().allMatch(String.class::isInstance)
                ? object(this::writeByClass) : pairs(this::writeByClass, this::writeByClass);
            case STRUCT -> throw Rare.RARE;
            default -> plain(type, null);
        };
        form.write(value, json);
    }
}
