package transforms;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A predicate that does not return: see Stuck. With another `where`, it is true of no record and counts. */
public class StuckTest implements Predicate<SourceRecord>, Monitorable {
    private String where = "test";
    private long seen;

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> properties) {
        where = Stuck.asked(properties, where, "configure");
    }

    @Override
    public void withPluginMetrics(PluginMetrics metrics) {
        metrics.addMetric(metrics.metricName("seen", "Records.", new LinkedHashMap<>()), (Gauge<Long>) (config, now) -> seen);
    }

    @Override
    public boolean test(SourceRecord record) {
        if (where.equals("test")) Odd.hang();
        seen++;
        return false;
    }

    @Override
    public void close() {
        if (where.equals("close")) Odd.hang();
    }
}
