package versioned;

import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** A transform that adds its version to a text. */
public class Stamp extends Part implements Transformation<SourceRecord> {
    @Override
    public SourceRecord apply(SourceRecord record) {
        return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
            record.value() + ", transform " + version(), record.timestamp(), record.headers());
    }
}
