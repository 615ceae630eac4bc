package versioned;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** A transform that adds its version to a text. */
public class Stamp implements Transformation<SourceRecord>, Versioned {
    @Override
    public String version() {
        return Versions.own();
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> properties) { }

    @Override
    public SourceRecord apply(SourceRecord record) {
        return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
            record.value() + ", transform " + version(), record.timestamp(), record.headers());
    }

    @Override
    public void close() { }
}
