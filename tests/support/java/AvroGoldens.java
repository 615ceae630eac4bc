import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.json.JsonConverter;

/** Prints the Avro schemas that Java makes of Connect's schemas: a line with name, settings, Connect's schema as JSON, and Avro's text or an error. */
public final class AvroGoldens {
  private static final JsonConverter JSON = new JsonConverter();

  private AvroGoldens() {}

  private static void print(String name, Schema schema, String... settings) {
    Map<String, Object> config = new HashMap<>();
    StringBuilder given = new StringBuilder();
    for (String setting : settings) {
      String[] parts = setting.split("=");
      config.put(parts[0], parts[1]);
      given.append(given.length() == 0 ? "" : ",").append(setting);
    }
    config.put("schemas.cache.config", 100);
    String avro;
    try {
      avro = new AvroData(new AvroDataConfig(config)).fromConnectSchema(schema).toString();
    } catch (RuntimeException error) {
      avro = "! " + error.getMessage();
    }
    String connect = schema == null ? "null" : JSON.asJsonSchema(schema).toString();
    System.out.println(name + "\t" + given + "\t" + connect + "\t" + avro.replace("\n", " "));
  }

  private static void scalars() {
    print("int8", Schema.INT8_SCHEMA);
    print("int16", Schema.INT16_SCHEMA);
    print("int32", Schema.INT32_SCHEMA);
    print("int64", Schema.INT64_SCHEMA);
    print("float32", Schema.FLOAT32_SCHEMA);
    print("float64", Schema.FLOAT64_SCHEMA);
    print("boolean", Schema.BOOLEAN_SCHEMA);
    print("string", Schema.STRING_SCHEMA);
    print("bytes", Schema.BYTES_SCHEMA);
    print("optional int8", Schema.OPTIONAL_INT8_SCHEMA);
    print("optional int16", Schema.OPTIONAL_INT16_SCHEMA);
    print("optional int32", Schema.OPTIONAL_INT32_SCHEMA);
    print("optional int64", Schema.OPTIONAL_INT64_SCHEMA);
    print("optional float32", Schema.OPTIONAL_FLOAT32_SCHEMA);
    print("optional float64", Schema.OPTIONAL_FLOAT64_SCHEMA);
    print("optional boolean", Schema.OPTIONAL_BOOLEAN_SCHEMA);
    print("optional string", Schema.OPTIONAL_STRING_SCHEMA);
    print("optional bytes", Schema.OPTIONAL_BYTES_SCHEMA);
    print("string with doc and version", SchemaBuilder.string().doc("A name").version(3).build());
    print("string with name", SchemaBuilder.string().name("my.Text").build());
    print("string with parameters", SchemaBuilder.string().parameter("a", "1").parameter("b", "2").build());
    print("string with Avro parameter", SchemaBuilder.string().parameter("avro.java.string", "String").build());
    print("all of a string", SchemaBuilder.string().name("n.T").doc("d").version(2).parameter("p", "q").defaultValue("x").build());
    print("no metadata", SchemaBuilder.string().name("n.T").doc("d").version(2).parameter("p", "q").defaultValue("x").build(), "connect.meta.data=false");
    print("no metadata int8", Schema.INT8_SCHEMA, "connect.meta.data=false");
    print("all of an int8", SchemaBuilder.int8().name("n.B").doc("d").version(2).parameter("p", "q").defaultValue((byte) 1).build());
    print("all with an Avro parameter", SchemaBuilder.string().name("n.T").version(2).parameter("avro.x", "q").parameter("r", "s").defaultValue("x").build());
    print("all of an optional string", SchemaBuilder.string().optional().name("n.T").doc("d").version(2).build());
    print("no metadata decimal", Decimal.schema(2), "connect.meta.data=false");
    print("no metadata struct", SchemaBuilder.struct().name("n.T").version(2).field("a", Schema.INT8_SCHEMA).build(), "connect.meta.data=false");
    print("no metadata timestamp", Timestamp.SCHEMA, "connect.meta.data=false");
    print("no metadata named map of ints", SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).name("n.Entries").build(), "connect.meta.data=false");
    print("text with a quote", SchemaBuilder.string().doc("a \"b\" \u001f \t \u00e4 \u2028 / \u0096").build());
    print("enum", SchemaBuilder.string().parameter("io.confluent.connect.avro.Enum", "Color").parameter("io.confluent.connect.avro.Enum.R", "R").parameter("io.confluent.connect.avro.Enum.G", "G").build());
    print("enum enhanced", SchemaBuilder.string().parameter("io.confluent.connect.avro.Enum", "Color").parameter("io.confluent.connect.avro.Enum.R", "R").parameter("io.confluent.connect.avro.Enum.G", "G").build(), "enhanced.avro.schema.support=true");
    print("no schema", null);
  }

  private static void logicals() {
    print("decimal", Decimal.schema(2));
    print("decimal of scale 0", Decimal.schema(0));
    print("decimal of negative scale", Decimal.schema(-2));
    print("decimal with precision", Decimal.builder(2).parameter("connect.decimal.precision", "10").build());
    print("decimal of more scale than precision", Decimal.builder(12).parameter("connect.decimal.precision", "10").build());
    print("optional decimal", Decimal.builder(3).optional().build());
    print("decimal default", Decimal.builder(2).defaultValue(new BigDecimal("1.50")).build());
    print("optional decimal default", Decimal.builder(2).optional().defaultValue(new BigDecimal("-1.50")).build());
    print("date", Date.SCHEMA);
    print("time", Time.SCHEMA);
    print("timestamp", Timestamp.SCHEMA);
    print("optional date", Date.builder().optional().build());
    print("optional time", Time.builder().optional().build());
    print("optional timestamp", Timestamp.builder().optional().build());
    print("date default", Date.builder().defaultValue(new java.util.Date(86400000L)).build());
    print("timestamp default", Timestamp.builder().defaultValue(new java.util.Date(1234L)).build());
    print("micro timestamp", SchemaBuilder.int64().name("io.debezium.time.MicroTimestamp").version(1).build());
    print("optional micro timestamp", SchemaBuilder.int64().name("io.debezium.time.MicroTimestamp").version(1).optional().build());
    print("debezium json", SchemaBuilder.string().name("io.debezium.data.Json").version(1).optional().build());
    print("debezium date", SchemaBuilder.int32().name("io.debezium.time.Date").version(1).build());
  }

  private static void defaults() {
    print("int8 default", SchemaBuilder.int8().defaultValue((byte) 1).build());
    print("int32 default", SchemaBuilder.int32().defaultValue(7).build());
    print("int64 default", SchemaBuilder.int64().defaultValue(7L).build());
    print("float32 default", SchemaBuilder.float32().defaultValue(1.5f).build());
    print("float64 default", SchemaBuilder.float64().defaultValue(2.0).build());
    print("boolean default", SchemaBuilder.bool().defaultValue(true).build());
    print("string default", SchemaBuilder.string().defaultValue("x").build());
    print("bytes default", SchemaBuilder.bytes().defaultValue(new byte[] {0, 65, (byte) 0xe9, (byte) 0xff}).build());
    print("optional string default", SchemaBuilder.string().optional().defaultValue("x").build());
    print("optional int32 default", SchemaBuilder.int32().optional().defaultValue(3).build());
    print("defaults in a struct", SchemaBuilder.struct().name("D")
        .field("a", SchemaBuilder.int32().defaultValue(7).build())
        .field("b", SchemaBuilder.string().optional().defaultValue("x").build())
        .field("c", Schema.OPTIONAL_STRING_SCHEMA)
        .field("d", SchemaBuilder.bytes().defaultValue(new byte[] {1, (byte) 0xff}).build())
        .field("e", Decimal.builder(2).optional().defaultValue(new BigDecimal("1.50")).build())
        .field("f", SchemaBuilder.array(Schema.INT32_SCHEMA).defaultValue(List.of(1, 2)).build())
        .field("g", SchemaBuilder.int16().optional().defaultValue((short) 5).build())
        .field("h", Timestamp.builder().optional().defaultValue(new java.util.Date(1234L)).build())
        .build());
    print("map default", SchemaBuilder.struct().name("M").field("m", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).defaultValue(new LinkedHashMap<>(Map.of("k", 1))).build()).build());
  }

  private static void structures() {
    print("array", SchemaBuilder.array(Schema.INT32_SCHEMA).build());
    print("array of optional", SchemaBuilder.array(Schema.OPTIONAL_BYTES_SCHEMA).optional().build());
    print("array of arrays", SchemaBuilder.array(SchemaBuilder.array(Schema.OPTIONAL_INT16_SCHEMA).build()).build());
    print("named array", SchemaBuilder.array(Schema.STRING_SCHEMA).name("n.A").doc("d").version(1).build());
    print("map", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT32_SCHEMA).build());
    print("map of optional", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_INT64_SCHEMA).build());
    print("map with optional key", SchemaBuilder.map(Schema.OPTIONAL_STRING_SCHEMA, Schema.STRING_SCHEMA).build());
    print("map with optional key allowed", SchemaBuilder.map(Schema.OPTIONAL_STRING_SCHEMA, Schema.STRING_SCHEMA).build(), "allow.optional.map.keys=true");
    print("map of ints", SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).build());
    print("optional map of ints", SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA).optional().build());
    print("named map of ints", SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).name("n.Entries").build());
    print("named map of strings", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.STRING_SCHEMA).name("n.Strings").build());
    print("two maps of ints", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).build()).field("b", SchemaBuilder.map(Schema.INT64_SCHEMA, Schema.STRING_SCHEMA).build()).build());
    Schema inner = SchemaBuilder.struct().field("x", Schema.INT32_SCHEMA).build();
    print("empty struct", SchemaBuilder.struct().build());
    print("struct", SchemaBuilder.struct().field("a", Schema.INT64_SCHEMA).field("b", Schema.OPTIONAL_STRING_SCHEMA).build());
    print("optional struct", SchemaBuilder.struct().optional().field("a", Schema.INT64_SCHEMA).build());
    print("named struct", SchemaBuilder.struct().name("top.public.t.Value").version(2).doc("Rows").field("a", Schema.INT64_SCHEMA).build());
    print("struct with a simple name", SchemaBuilder.struct().name("Value").field("a", Schema.INT64_SCHEMA).build());
    print("unnamed nested", SchemaBuilder.struct().field("a", inner).field("b", SchemaBuilder.struct().field("y", Schema.STRING_SCHEMA).optional().build()).build());
    print("unnamed nested deeper", SchemaBuilder.struct().field("a", SchemaBuilder.struct().field("b", SchemaBuilder.struct().field("y", Schema.STRING_SCHEMA).build()).build()).field("c", SchemaBuilder.struct().field("z", Schema.INT32_SCHEMA).build()).build());
    print("the same unnamed struct twice", SchemaBuilder.struct().field("a", inner).field("b", inner).build());
    print("unnamed in a named struct", SchemaBuilder.struct().name("n.T").field("a", inner).build());
    print("array of structs", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.array(inner).build()).build());
    print("map of structs", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.map(Schema.STRING_SCHEMA, SchemaBuilder.struct().name("n.E").field("x", Schema.INT32_SCHEMA).optional().build()).build()).build());
    Schema row = SchemaBuilder.struct().name("s.public.t.Value").optional().field("id", SchemaBuilder.int32().defaultValue(0).build()).field("n", Schema.OPTIONAL_STRING_SCHEMA).build();
    print("envelope", SchemaBuilder.struct().name("s.public.t.Envelope").version(2).field("before", row).field("after", row).field("ts", SchemaBuilder.int64().name("io.debezium.time.MicroTimestamp").version(1).optional().build()).build());
    print("one name with other fields", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.struct().name("n.U").field("x", Schema.INT32_SCHEMA).build()).field("b", SchemaBuilder.struct().name("n.U").field("x", Schema.STRING_SCHEMA).build()).build());
    Schema once = SchemaBuilder.struct().field("x", Schema.INT32_SCHEMA).build();
    Schema maybe = SchemaBuilder.struct().optional().field("x", Schema.INT32_SCHEMA).build();
    print("the same unnamed struct, once optional", SchemaBuilder.struct().field("a", once).field("b", maybe).build());
    print("the same unnamed struct, twice optional", SchemaBuilder.struct().field("a", maybe).field("b", maybe).build());
    Schema named = SchemaBuilder.struct().name("n.U").field("x", Schema.INT32_SCHEMA).build();
    Schema namedMaybe = SchemaBuilder.struct().name("n.U").optional().field("x", Schema.INT32_SCHEMA).build();
    print("the same named struct, once optional", SchemaBuilder.struct().name("n.T").field("a", named).field("b", namedMaybe).build());
    print("the same named struct in arrays and maps", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.array(named).build()).field("b", SchemaBuilder.map(Schema.STRING_SCHEMA, named).build()).field("c", named).build());
    print("the same unnamed struct in an array", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.array(once).build()).field("b", once).build());
    print("two different unnamed structs in arrays", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.array(once).build()).field("b", SchemaBuilder.array(SchemaBuilder.struct().field("y", Schema.INT32_SCHEMA).build()).build()).build());
    print("struct within itself by name", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.struct().name("m.T").field("x", Schema.INT32_SCHEMA).build()).field("b", SchemaBuilder.struct().name("m.T").field("x", Schema.INT32_SCHEMA).build()).build());
    print("maps of ints at two depths", SchemaBuilder.struct().field("a", SchemaBuilder.map(Schema.INT32_SCHEMA, SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).build()).build()).build());
    print("field doc", SchemaBuilder.struct().name("n.T").field("a", SchemaBuilder.int32().doc("An a").build()).field("b", SchemaBuilder.string().optional().doc("A b").build()).build());
    print("int8 in a struct", SchemaBuilder.struct().name("n.T").field("a", Schema.INT8_SCHEMA).field("b", Schema.OPTIONAL_INT16_SCHEMA).build());
    print("struct with parameters", SchemaBuilder.struct().name("n.T").parameter("p", "q").field("a", Schema.INT32_SCHEMA).build());
  }

  private static void names() {
    print("name with a hyphen", SchemaBuilder.struct().name("my-topic.Value").field("a", Schema.INT32_SCHEMA).build());
    print("scrubbed name with a hyphen", SchemaBuilder.struct().name("my-topic.Value").field("a", Schema.INT32_SCHEMA).build(), "scrub.invalid.names=true");
    print("scrubbed field", SchemaBuilder.struct().name("n.T").field("a b", Schema.INT32_SCHEMA).field("1st", Schema.INT32_SCHEMA).field("\u00e4", Schema.INT32_SCHEMA).field("_x", Schema.INT32_SCHEMA).build(), "scrub.invalid.names=true");
    print("scrubbed digits in a name", SchemaBuilder.struct().name("1a.2b").field("a", Schema.INT32_SCHEMA).build(), "scrub.invalid.names=true");
    print("field with a blank", SchemaBuilder.struct().name("n.T").field("a b", Schema.INT32_SCHEMA).build());
    print("field of umlauts", SchemaBuilder.struct().name("n.T").field("\u00e4", Schema.INT32_SCHEMA).build());
  }

  public static void main(String[] arguments) {
    Map<String, Object> config = new HashMap<>();
    config.put("schemas.enable", "true");
    JSON.configure(config, false);
    scalars();
    logicals();
    defaults();
    structures();
    names();
  }
}
