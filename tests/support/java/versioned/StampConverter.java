package versioned;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.storage.StringConverter;

/** A converter that adds its version to a text. */
public class StampConverter extends StringConverter {
    @Override
    public String version() {
        return Versions.own();
    }

    @Override
    public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
        return fromConnectData(topic, schema, value);
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        return super.fromConnectData(topic, schema, value + ", converter " + version());
    }
}
