package transforms;

import java.util.Map;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.Converter;

/** A converter that does not return. */
public class Stuck implements Converter, Versioned {
    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void configure(Map<String, ?> properties, boolean key) {}

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        return Odd.hang();
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        throw new UnsupportedOperationException();
    }
}
