package fencepost.host;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Makes the bytes of keys and values in dead letters, without a converter: bytes and texts stay unchanged, anything
 * else becomes JSON without schemas.
 */
final class PlainBytes {
    private static final JsonConverter JSON = new JsonConverter();

    static {
        JSON.configure(Map.of("schemas.enable", "false"), false);
    }

    private PlainBytes() { }

    static byte[] of(Schema schema, Object value) {
        if (value == null) return null;
        if (value instanceof byte[] bytes) return bytes;
        if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return bytes;
        }
        if (value instanceof String text) return text.getBytes(StandardCharsets.UTF_8);
        try {
            return JSON.fromConnectData("", schema, value);
        } catch (RuntimeException invalid) {
            return value.toString().getBytes(StandardCharsets.UTF_8);
        }
    }
}
