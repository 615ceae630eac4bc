package hostile;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.ConnectorContext;
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
            case "exit" -> {
                System.out.println("printed before the end");
                System.exit(3);
            }
            case "hang" -> hang();
            case "leak" -> {
                while (true) LEAK.add(new byte[1 << 20]);
            }
            case "halt" -> Runtime.getRuntime().halt(137);
            case "throw" -> throw new IllegalStateException("the source is gone");
            default -> { }
        }
    }

    /**
     * Hang if the system property `hostile.hangs` of the JVM names this call, and the file in `hostile.gate`, if there is one,
     * exists.
     */
    static void asked(String call) {
        String gate = System.getProperty("hostile.gate");
        if (call.equals(System.getProperty("hostile.hangs")) && (gate == null || Files.exists(Path.of(gate)))) hang();
    }

    static {
        asked("static");
    }

    public HostileConnector() {
        asked("constructor");
    }

    @Override
    public void initialize(ConnectorContext given) {
        asked("initialize");
        super.initialize(given);
    }

    /** Let the JVM end as by kill -9 if `halt` names this step, as often as there are files in the folder `halts`. */
    static void halt(Map<String, String> config, String step) {
        if (!step.equals(config.get("halt"))) return;
        File[] left = new File(config.get("halts")).listFiles();
        if (left.length > 0 && left[0].delete()) Runtime.getRuntime().halt(137);
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
            .define("password", ConfigDef.Type.PASSWORD, null, ConfigDef.Importance.LOW, "A secret.")
            .define("behaviour", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "What goes wrong.")
            .define("limit", ConfigDef.Type.INT, 10, ConfigDef.Range.atLeast(1), ConfigDef.Importance.LOW, "The last number.");
    }

    @Override
    public void start(Map<String, String> properties) {
        config = properties;
        halt(config, "connector.start");
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
        return answered(given, where, usual, usual);
    }

    /** The same; `no` is the answer of the behaviour `no`. */
    private static <T> T answered(Map<String, String> given, String where, T usual, T no) {
        if (!is(given, where)) return usual;
        String how = given.get("behaviour").split(" ")[0];
        die(how);
        if (how.equals("null")) return null;
        return how.equals("no") ? no : usual;
    }

    @Override
    public Class<? extends Task> taskClass() {
        // A question about the class comes before the configuration.
        if (config != null && is("taskClass")) die(how());
        return HostileTask.class;
    }

    /** One task; or one for each of the names in `counters`, however many may run. */
    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        halt(config, "connector.taskConfigs");
        if (config.containsKey("counters")) {
            List<Map<String, String>> tasks = new ArrayList<>();
            for (String counter : config.get("counters").split(",")) {
                Map<String, String> task = new LinkedHashMap<>(config);
                task.put("counter", counter);
                tasks.add(task);
            }
            return tasks;
        }
        return answered(config, "taskConfigs", Collections.singletonList(how().equals("empty") ? null : config));
    }

    @Override
    public void stop() {
        halt(config, "connector.stop");
        if (is("stop")) die(how());
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return answered(given, "exactlyOnceSupport", ExactlyOnceSupport.SUPPORTED, ExactlyOnceSupport.UNSUPPORTED);
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> given) {
        return answered(given, "canDefineTransactionBoundaries", ConnectorTransactionBoundaries.SUPPORTED,
            ConnectorTransactionBoundaries.UNSUPPORTED);
    }

    @Override
    public boolean alterOffsets(Map<String, String> given, Map<Map<String, ?>, Map<String, ?>> offsets) {
        return answered(given, "alterOffsets", super.alterOffsets(given, offsets));
    }
}
