package versioned;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A predicate that holds in the version 1.10.0.Final. */
public class Last implements Predicate<SourceRecord>, Versioned {
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
    public boolean test(SourceRecord record) {
        return version().equals("1.10.0.Final");
    }

    @Override
    public void close() { }
}
