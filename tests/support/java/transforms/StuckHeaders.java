package transforms;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

/** A header converter that does not return: see Stuck. With another `where`, it works and counts. */
public class StuckHeaders extends SimpleHeaderConverter implements Monitorable {
    private String where = "convert";
    private long seen;

    @Override
    public void configure(Map<String, ?> properties) {
        super.configure(properties);
        where = Stuck.asked(properties, where, "configure");
    }

    @Override
    public void withPluginMetrics(PluginMetrics metrics) {
        metrics.addMetric(metrics.metricName("seen", "Headers.", new LinkedHashMap<>()), (Gauge<Long>) (config, now) -> seen);
    }

    @Override
    public byte[] fromConnectHeader(String topic, String key, Schema schema, Object value) {
        if (where.equals("convert")) Odd.hang();
        seen++;
        return super.fromConnectHeader(topic, key, schema, value);
    }

    @Override
    public void close() {
        if (where.equals("close")) Odd.hang();
    }
}
