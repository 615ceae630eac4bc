import io.apicurio.registry.utils.converter.AvroConverter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Reads records with Apicurio's AvroConverter. A line of the input has a topic and the bytes in base64; a line of the output
 * what Connect gets, as JsonConverter writes it with its schema, or an error.
 */
public final class ConverterReads {
  private ConverterReads() {}

  public static void main(String[] arguments) throws Exception {
    AvroConverter<Object> avro = new AvroConverter<>();
    avro.configure(
        Map.of(
            "apicurio.registry.url", arguments[0],
            "apicurio.registry.as-confluent", "true",
            "apicurio.registry.use-id", "contentId",
            "apicurio.registry.headers.enabled", "false"),
        false);
    JsonConverter json = new JsonConverter();
    json.configure(Map.of("schemas.enable", "true"), false);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] parts = line.split("\t");
      String told;
      try {
        SchemaAndValue found = avro.toConnectData(parts[0], Base64.getDecoder().decode(parts[1]));
        told = new String(json.fromConnectData(parts[0], found.schema(), found.value()), StandardCharsets.UTF_8);
      } catch (RuntimeException error) {
        StringBuilder causes = new StringBuilder("!");
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
          causes.append(' ').append(cause);
        }
        told = causes.toString().replace("\n", " ");
      }
      System.out.write((told + "\n").getBytes(StandardCharsets.UTF_8));
    }
    System.out.flush();
  }
}
