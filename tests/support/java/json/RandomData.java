package fencepost.host;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Calendar;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TimeZone;
import java.util.UUID;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.DataException;

/** Random schemas, and values for them. `odd` is the share of what connectors rarely or never return, which may be wrong. */
final class RandomData {
    private static final String PAIR = "\ud83d\ude00";
    private static final List<String> TEXTS = List.of(
        "", "name", "a b", "quote \" and \\", "tab\tand\u0000\u001f", "\u00e9\u00df", "\u65e5\u672c", PAIR, "\u2028\u007f", "</script>", "null", "0.10");
    private static final String HALF = "half \ud800 a pair", LONG = "0123456789\u00e9\u65e5\ud83d\ude00\"".repeat(1500);
    private static final long DAY = 86_400_000;

    private final Random random;
    private final double odd;

    RandomData(long seed, double odd) {
        random = new Random(seed);
        this.odd = odd;
    }

    private boolean chance(double share) {
        return random.nextDouble() < share;
    }

    private boolean isOdd() {
        return chance(odd);
    }

    private <T> T one(List<T> all) {
        return all.get(random.nextInt(all.size()));
    }

    Schema schema(int depth) {
        if (isOdd()) return chance(0.5) ? null : SchemaBuilder.int32();
        SchemaBuilder builder = builder(depth);
        if (chance(0.4)) builder.optional();
        if (builder.version() == null && chance(0.2)) builder.version(random.nextInt(3));
        if (chance(0.2)) builder.doc(text());
        if (builder.name() == null && chance(0.2)) builder.name(text());
        for (int i = random.nextInt(3); i > 0; i--) parameter(builder, text(), text());
        // A struct has the schema that is not built yet, and JsonConverter refuses it then.
        if (chance(0.2) && (builder.type() != Schema.Type.STRUCT || isOdd())) defaultValue(builder, present(builder, depth));
        return isOdd() ? builder : builder.build();
    }

    private static void parameter(SchemaBuilder builder, String name, String value) {
        if (builder.parameters() == null || !builder.parameters().containsKey(name)) builder.parameter(name, value);
    }

    private static void defaultValue(SchemaBuilder builder, Object value) {
        try {
            builder.defaultValue(value);
        } catch (DataException unfit) {
            // Without one, then.
        }
    }

    private SchemaBuilder builder(int depth) {
        if (depth > 0 && chance(0.5)) {
            return switch (random.nextInt(4)) {
                case 0 -> SchemaBuilder.array(known(depth - 1));
                case 1 -> SchemaBuilder.map(chance(0.6) ? names() : known(depth - 1), known(depth - 1));
                default -> struct(depth);
            };
        }
        return switch (random.nextInt(4)) {
            case 0 -> Decimal.builder(random.nextInt(7) - 2);
            case 1 -> one(List.<Supplier<SchemaBuilder>>of(Date::builder, Time::builder, Timestamp::builder)).get();
            default -> SchemaBuilder.type(one(List.of(Schema.Type.values()).subList(0, 9)));
        };
    }

    private Schema names() {
        return chance(10 * odd) ? SchemaBuilder.string().name(Date.LOGICAL_NAME).build() : Schema.STRING_SCHEMA;
    }

    private Schema known(int depth) {
        for (Schema schema = schema(depth); ; schema = schema(depth)) if (schema != null) return schema;
    }

    private SchemaBuilder struct(int depth) {
        SchemaBuilder builder = SchemaBuilder.struct();
        for (int i = random.nextInt(6); i > 0; i--) {
            String name = "_" + (isOdd() ? PAIR : text().replace(PAIR, ""));
            if (builder.field(name) == null) builder.field(name, known(depth - 1));
        }
        return builder;
    }

    private String text() {
        if (isOdd()) return HALF;
        return chance(0.01) ? LONG : one(TEXTS) + (chance(0.5) ? "" : random.nextInt(100));
    }

    Object value(Schema schema, int depth) {
        if (isOdd()) return odd();
        if (schema == null) return schemaless(depth);
        return chance(schema.isOptional() ? 0.2 : odd) ? null : present(schema, depth);
    }

    private Object present(Schema schema, int depth) {
        if (Decimal.LOGICAL_NAME.equals(schema.name())) {
            int scale = Integer.parseInt(schema.parameters().get(Decimal.SCALE_FIELD));
            return new BigDecimal(new BigInteger(random.nextInt(90), random).subtract(BigInteger.ONE.shiftLeft(20)), isOdd() ? scale + 400 : scale);
        }
        long time = (random.nextLong() % 100_000) * DAY;
        if (Date.LOGICAL_NAME.equals(schema.name())) return new java.util.Date(isOdd() ? time + 1 : time);
        if (Time.LOGICAL_NAME.equals(schema.name())) return new java.util.Date(isOdd() ? time : random.nextInt((int) DAY));
        if (Timestamp.LOGICAL_NAME.equals(schema.name())) return chance(0.5) ? new java.sql.Timestamp(time + 1) : calendar(time);
        return plain(schema, depth);
    }

    private static java.util.Date calendar(long time) {
        Calendar calendar = Calendar.getInstance(TimeZone.getTimeZone("UTC"));
        calendar.setTimeInMillis(time);
        return calendar.getTime();
    }

    private Object plain(Schema schema, int depth) {
        return switch (schema.type()) {
            case INT8 -> (byte) random.nextInt();
            case INT16 -> (short) random.nextInt();
            case INT32 -> random.nextInt();
            case INT64 -> chance(0.5) ? random.nextLong() : random.nextInt(10);
            case FLOAT32 -> chance(0.3) ? one(List.of(Float.NaN, Float.NEGATIVE_INFINITY, -0f, Float.MIN_VALUE, 1e10f)) : Float.intBitsToFloat(random.nextInt());
            case FLOAT64 -> chance(0.3) ? one(List.of(Double.NaN, Double.POSITIVE_INFINITY, -0d, Double.MIN_VALUE, 100d)) : Double.longBitsToDouble(random.nextLong());
            case BOOLEAN -> random.nextBoolean();
            case STRING -> text();
            case BYTES -> bytes();
            case ARRAY -> {
                List<Object> items = new ArrayList<>();
                for (int i = random.nextInt(4); i > 0; i--) items.add(value(schema.valueSchema(), depth - 1));
                yield items;
            }
            case MAP -> {
                Map<Object, Object> entries = chance(0.5) ? new HashMap<>() : new LinkedHashMap<>();
                for (int i = random.nextInt(4); i > 0; i--) entries.put(key(schema.keySchema(), depth - 1), value(schema.valueSchema(), depth - 1));
                yield entries;
            }
            case STRUCT -> filled(isOdd() ? new OwnStruct(schema) : new Struct(schema), depth);
        };
    }

    private Object key(Schema schema, int depth) {
        return schema.type() == Schema.Type.STRING && !isOdd() ? text() : value(schema, depth);
    }

    /** JsonConverter asks it by name. */
    private static final class OwnStruct extends Struct {
        OwnStruct(Schema schema) {
            super(schema);
        }

        @Override
        public Object get(Field field) {
            return "not this";
        }
    }

    private Struct filled(Struct struct, int depth) {
        for (Field field : struct.schema().fields()) {
            Object value = value(field.schema(), depth - 1);
            try {
                struct.put(field, value);
            } catch (DataException unfit) {
                continue;
            }
            if (!isOdd()) continue;
            if (value instanceof ArrayList<?>) ((List<Object>) value).add(odd());
            if (value instanceof HashMap<?, ?>) ((Map<Object, Object>) value).put(odd(), odd());
        }
        return struct;
    }

    private Object bytes() {
        byte[] bytes = new byte[chance(0.02) ? 9000 : random.nextInt(8)];
        random.nextBytes(bytes);
        if (isOdd()) return chance(0.5) ? ByteBuffer.allocateDirect(3) : ByteBuffer.wrap(bytes).asReadOnlyBuffer();
        return chance(0.5) ? bytes : ByteBuffer.wrap(bytes, bytes.length / 2, bytes.length / 4);
    }

    private Object schemaless(int depth) {
        if (chance(0.1)) return null;
        return switch (random.nextInt(depth > 0 ? 12 : 9)) {
            case 0 -> (byte) random.nextInt();
            case 1 -> (short) random.nextInt();
            case 2 -> random.nextInt();
            case 3 -> random.nextLong();
            case 4 -> random.nextFloat();
            case 5 -> random.nextDouble();
            case 6 -> random.nextBoolean();
            case 7 -> text();
            case 8 -> bytes();
            case 9 -> IntStream.range(0, random.nextInt(4)).mapToObj(i -> value(null, depth - 1)).collect(ArrayList::new, List::add, List::addAll);
            default -> {
                boolean hasNames = chance(0.7);
                Map<Object, Object> entries = new LinkedHashMap<>();
                for (int i = random.nextInt(4); i > 0; i--) entries.put(hasNames ? text() : value(null, depth - 1), value(null, depth - 1));
                yield entries;
            }
        };
    }

    /** What no schema, or few, can have. */
    private Object odd() {
        return switch (random.nextInt(13)) {
            case 0 -> new StringBuilder(text());
            case 1 -> UUID.randomUUID();
            case 2 -> new java.util.Date(random.nextLong());
            case 3 -> 7;
            case 4 -> "text";
            case 5 -> new BigDecimal("1E+400");
            case 6 -> new Struct(SchemaBuilder.struct().field("a", Schema.OPTIONAL_INT8_SCHEMA).build());
            case 7 -> {
                Map<Object, Object> twice = new IdentityHashMap<>();
                twice.put(new String("a"), 1);
                twice.put(new String("a"), "1");
                yield twice;
            }
            case 8 -> new HashMap<>(java.util.Collections.singletonMap(null, 1));
            case 9 -> deep();
            case 10 -> List.of(1, 2L, "3");
            case 11 -> new char[] {'a'};
            default -> null;
        };
    }

    private static Object deep() {
        Object inner = List.of();
        for (int i = 0; i < 1100; i++) inner = List.of(inner);
        return inner;
    }
}
