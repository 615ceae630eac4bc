package hostile;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
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
        System.out.println("hangs");
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

    /** Hang if the system property `hostile.hangs` of the JVM names this question. */
    private static void asked(String question) {
        if (question.equals(System.getProperty("hostile.hangs"))) hang();
    }

    @Override
    public String version() {
        asked("version");
        return "6.6.6";
    }

    @Override
    public Config validate(Map<String, String> given) {
        return answered(given, "validate", super.validate(given));
    }

    @Override
    public ConfigDef config() {
        asked("config");
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
        if (how().equals("interrupted")) Thread.currentThread().interrupt();
        if (how().equals("ask") || how().equals("interrupted")) context().requestTaskReconfiguration();
        Thread.interrupted();
        die(how());
    }

    private boolean is(String where) {
        return is(config, where);
    }

    private static boolean is(Map<String, String> given, String where) {
        return given.getOrDefault("behaviour", "").endsWith("in connector." + where);
    }

    private String how() {
        return config.getOrDefault("behaviour", "").split(" ")[0];
    }

    /** The usual answer to a question about a configuration, unless that says that something goes wrong there. */
    private static <T> T answered(Map<String, String> given, String where, T usual) {
        if (!is(given, where)) return usual;
        String how = given.get("behaviour").split(" ")[0];
        die(how);
        return how.equals("null") ? null : usual;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return HostileTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return answered(config, "taskConfigs", Collections.singletonList(how().equals("empty") ? null : config));
    }

    @Override
    public void stop() {
        if (is("stop")) die(how());
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return answered(given, "exactlyOnceSupport", ExactlyOnceSupport.SUPPORTED);
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> given) {
        return answered(given, "canDefineTransactionBoundaries", ConnectorTransactionBoundaries.SUPPORTED);
    }

    @Override
    public boolean alterOffsets(Map<String, String> given, Map<Map<String, ?>, Map<String, ?>> offsets) {
        return answered(given, "alterOffsets", super.alterOffsets(given, offsets));
    }
}
