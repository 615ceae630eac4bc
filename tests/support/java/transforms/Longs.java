package transforms;

import java.util.Map;
import org.apache.kafka.connect.converters.LongConverter;
import org.apache.kafka.connect.data.Schema;

/** A LongConverter that lets its JVM end, at every third record: see Odd. */
public class Longs extends LongConverter {
    private String halts = "";
    private int seen;

    @Override
    public void configure(Map<String, ?> properties, boolean key) {
        super.configure(properties, key);
        if (properties.containsKey("halts")) halts = (String) properties.get("halts");
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        if (++seen % 3 == 0) Odd.halt(halts);
        return super.fromConnectData(topic, schema, value);
    }
}
