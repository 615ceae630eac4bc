package versioned;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A connector that says its version: in its definitions, and in its only record. */
public class VersionedConnector extends SourceConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return Versions.own();
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The topic.")
            .define("of", ConfigDef.Type.STRING, version(), ConfigDef.Importance.LOW, "The version of these definitions.");
    }

    @Override
    public void start(Map<String, String> properties) {
        config = properties;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return VersionedTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(config);
    }

    @Override
    public void stop() { }

    /** Returns one record, ever. */
    public static class VersionedTask extends SourceTask {
        private static final Map<String, String> PARTITION = Map.of("p", "only");
        private String topic;

        @Override
        public String version() {
            return Versions.own();
        }

        @Override
        public void start(Map<String, String> properties) {
            if (context.offsetStorageReader().offset(PARTITION) == null) topic = properties.get("topic");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (topic == null) {
                Thread.sleep(10);
                return null;
            }
            String to = topic;
            topic = null;
            return List.of(new SourceRecord(PARTITION, Map.of("done", true), to, Schema.STRING_SCHEMA, "connector " + version()));
        }

        @Override
        public void stop() { }
    }
}
