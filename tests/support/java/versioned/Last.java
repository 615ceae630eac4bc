package versioned;

import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A predicate that holds in the version 1.10.0.Final. */
public class Last extends Part implements Predicate<SourceRecord> {
    @Override
    public boolean test(SourceRecord record) {
        return version().equals("1.10.0.Final");
    }
}
