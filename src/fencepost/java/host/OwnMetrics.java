package fencepost.host;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.utils.Time;

/**
 * The metrics that a connector adds, or that a task and the plugins of its pipeline add (KIP-877). They have the same
 * names and tags as in Connect. They are MBeans of this process, and the worker asks for their values.
 */
final class OwnMetrics {
    /** The group in which Kafka puts the metrics of plugins, and no metrics of its own. */
    private static final String GROUP = "plugins";
    /** The largest number of metrics: more than anybody needs, but few enough to be sent at each scrape. */
    private static final int MOST = 1000;

    private final Metrics metrics = new Metrics(
        new MetricConfig(), List.of(new JmxReporter()), Time.SYSTEM, new KafkaMetricsContext("kafka.connect"));
    private final Map<String, String> tags = new LinkedHashMap<>();
    private final PluginMetrics own;

    /** `task` is the task's number, null for a connector. */
    OwnMetrics(String connector, String task) {
        tags.put("connector", connector);
        if (task != null) tags.put("task", task);
        own = new PluginMetricsImpl(metrics, tags);
    }

    /** Returns the metrics of the connector or task itself. */
    PluginMetrics of() {
        return own;
    }

    /** If a plugin of the pipeline has metrics, lets it add them, with one additional tag. */
    void offer(Object plugin, String tag, String value) {
        if (!(plugin instanceof Monitorable monitorable)) return;
        Map<String, String> all = new LinkedHashMap<>(tags);
        all.put(tag, value);
        monitorable.withPluginMetrics(new PluginMetricsImpl(metrics, all));
    }

    /** Puts the values that are numbers into an answer. This calls the plugin's code. */
    void describe(ObjectNode answer) {
        ArrayNode all = answer.putArray("metrics");
        for (Map.Entry<MetricName, KafkaMetric> entry : metrics.metrics().entrySet()) {
            MetricName name = entry.getKey();
            if (!name.group().equals(GROUP) || all.size() == MOST) continue;
            Object value = value(entry.getValue());
            if (!(value instanceof Number number)) continue;
            ObjectNode one = all.addObject().put("name", name.name()).put("description", name.description());
            one.put("value", String.valueOf(number.doubleValue())).set("tags", Wire.JSON.valueToTree(name.tags()));
        }
    }

    private static Object value(KafkaMetric metric) {
        try {
            return metric.metricValue();
        } catch (RuntimeException failed) {
            return Double.NaN;
        }
    }

    void close() {
        metrics.close();
    }
}
