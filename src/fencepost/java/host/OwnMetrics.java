package fencepost.host;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.utils.Time;

/** The metrics that a plugin adds (KIP-877). They are MBeans of this process. */
final class OwnMetrics {
    private final Metrics metrics = new Metrics(
        new MetricConfig(), List.of(new JmxReporter()), Time.SYSTEM, new KafkaMetricsContext("kafka.connect"));
    private final PluginMetricsImpl plugin = new PluginMetricsImpl(metrics, Map.of());

    PluginMetrics plugin() {
        return plugin;
    }

    void close() {
        metrics.close();
    }
}
