package versioned;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;

/** What parts of a pipeline without properties share. */
abstract class Part implements Versioned {
    @Override
    public String version() {
        return Versions.own();
    }

    public ConfigDef config() {
        return new ConfigDef();
    }

    public void configure(Map<String, ?> properties) { }

    public void close() { }
}
