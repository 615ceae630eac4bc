package transforms;

import java.io.File;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A transform that does what its property `how` says to records whose value is a multiple of `every`. */
public class Odd implements Transformation<SourceRecord>, Versioned, Monitorable {
    private static final Logger LOG = LoggerFactory.getLogger(Odd.class);
    private String how;
    private long every;
    private int failures;
    private long seen;
    private String halts;
    private Object type;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public ConfigDef config() {
        if ("transform.config".equals(System.getProperty("hostile.hangs"))) hang();
        return new ConfigDef()
            .define("how", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "What happens.")
            .define("every", ConfigDef.Type.LONG, 2, ConfigDef.Range.atLeast(1), ConfigDef.Importance.LOW, "To which records.")
            .define("halts", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "A folder with a file for each end of the JVM.")
            .define("pin", ConfigDef.Type.PASSWORD, "", ConfigDef.Importance.LOW, "A secret.");
    }

    @Override
    public void configure(Map<String, ?> properties) {
        Map<String, Object> values = config().parse(properties);
        how = (String) values.get("how");
        every = (Long) values.get("every");
        halts = (String) values.get("halts");
        type = properties.get("type");
        LOG.debug("is configured: {}", how);
        if (how.equals("hang in configure")) hang();
    }

    @Override
    public void withPluginMetrics(PluginMetrics metrics) {
        metrics.addMetric(metrics.metricName("seen", "Records.", new LinkedHashMap<>()), (Gauge<Long>) (config, now) -> seen);
    }

    @Override
    public SourceRecord apply(SourceRecord record) {
        if (++seen % 3 == 0) halt(halts);
        if ((Long) record.value() % every != 0) return record;
        return switch (how) {
            case "drop" -> null;
            case "hang in close" -> record;
            case "hang in apply" -> hang();
            case "throw" -> throw new DataException("number " + record.value() + " is refused");
            case "error" -> throw new StackOverflowError("too deep");
            case "wait" -> throw new RetriableException("not for now");
            case "retry" -> {
                if (failures++ < 2) throw new RetriableException("not yet");
                yield record;
            }
            case "interrupted" -> {
                Thread.currentThread().interrupt();
                if (failures++ < 2) throw new RetriableException("not yet");
                yield record;
            }
            case "mute" -> throw new Mute();
            case "type" -> record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
                Schema.STRING_SCHEMA, String.valueOf(type), record.timestamp());
            case "text" -> record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
                Schema.STRING_SCHEMA, "number " + record.value(), record.timestamp());
            case "partition" -> record.newRecord(record.topic(), -1, record.keySchema(), record.key(), record.valueSchema(), record.value(), record.timestamp());
            case "loader" -> record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), Schema.STRING_SCHEMA,
                String.valueOf(Thread.currentThread().getContextClassLoader() == getClass().getClassLoader()), record.timestamp());
            default -> throw new IllegalStateException(how);
        };
    }

    /** Let the JVM end as by kill -9, as often as there are files in a folder, if one is given. */
    static void halt(String folder) {
        File[] left = folder.isEmpty() ? new File[0] : new File(folder).listFiles();
        if (left.length > 0 && left[0].delete()) Runtime.getRuntime().halt(137);
    }

    /** An exception that cannot say what it is. */
    private static final class Mute extends DataException {
        private Mute() {
            super("mute");
        }

        @Override
        public String getMessage() {
            throw new IllegalStateException("no words");
        }
    }

    static <T> T hang() {
        System.out.println("hangs");
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException ignored) {
                // It hangs on.
            }
        }
    }

    @Override
    public void close() {
        System.out.println("An Odd is closed: " + how);
        if (how.equals("hang in close")) hang();
    }
}
