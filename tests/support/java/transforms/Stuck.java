package transforms;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.Converter;

/**
 * A converter that does not return: from a conversion, or from `configure` or `close` if its property `where` says so;
 * with another `where`, it converts anything to no bytes and counts.
 */
public class Stuck implements Converter, Versioned, Monitorable {
    private String where = "convert";
    private long seen;

    /** Hang if the property `where` is the name of this call. Return its value. */
    static String asked(Map<String, ?> properties, String usual, String call) {
        Object where = properties.get("where");
        if (call.equals(where)) Odd.hang();
        return where == null ? usual : (String) where;
    }

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void configure(Map<String, ?> properties, boolean key) {
        where = asked(properties, where, "configure");
    }

    @Override
    public void withPluginMetrics(PluginMetrics metrics) {
        metrics.addMetric(metrics.metricName("seen", "Data.", new LinkedHashMap<>()), (Gauge<Long>) (config, now) -> seen);
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        if (where.equals("convert")) Odd.hang();
        seen++;
        return new byte[0];
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void close() {
        if (where.equals("close")) Odd.hang();
    }
}
