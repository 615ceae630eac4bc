package hostile;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/** A connector that does what its property `behaviour` says, and otherwise counts. */
public class HostileConnector extends SourceConnector {
    static final List<byte[]> LEAK = new ArrayList<>();
    private Map<String, String> config;

    static void hang() {
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException ignored) {
                // It hangs on.
            }
        }
    }

    static void die(String how) {
        switch (how) {
            case "exit" -> System.exit(3);
            case "hang" -> hang();
            case "leak" -> {
                while (true) LEAK.add(new byte[1 << 20]);
            }
            case "halt" -> Runtime.getRuntime().halt(137);
            case "throw" -> throw new IllegalStateException("the source is gone");
            default -> { }
        }
    }

    @Override
    public String version() {
        return "6.6.6";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The topic.")
            .define("behaviour", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "What goes wrong.")
            .define("limit", ConfigDef.Type.INT, 10, ConfigDef.Range.atLeast(1), ConfigDef.Importance.LOW, "The last number.");
    }

    @Override
    public void start(Map<String, String> properties) {
        config = properties;
        PluginMetrics metrics = context().pluginMetrics();
        metrics.addMetric(metrics.metricName("limit", "The last number.", new LinkedHashMap<>()),
            (Gauge<Double>) (settings, now) -> Double.valueOf(config.getOrDefault("limit", "10")));
        if (!is("start")) return;
        if (how().equals("ask")) context().requestTaskReconfiguration();
        die(how());
    }

    private boolean is(String where) {
        return config.getOrDefault("behaviour", "").endsWith("in connector." + where);
    }

    private String how() {
        return config.get("behaviour").split(" ")[0];
    }

    @Override
    public Class<? extends Task> taskClass() {
        return HostileTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        if (is("taskConfigs")) return how().equals("null") ? null : Collections.singletonList(null);
        return Collections.singletonList(config);
    }

    @Override
    public void stop() {
        if (is("stop")) die(how());
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> given) {
        return ConnectorTransactionBoundaries.SUPPORTED;
    }
}
