package hostile;

import java.util.Map;
import org.apache.kafka.connect.connector.Task;

/** A HostileConnector whose tasks do more harm, and that may report an error of its own while it runs. */
public class WildConnector extends HostileConnector {
    @Override
    public Class<? extends Task> taskClass() {
        return WildTask.class;
    }

    @Override
    public void start(Map<String, String> properties) {
        super.start(properties);
        if (properties.getOrDefault("wild", "").equals("raise")) {
            Thread later = new Thread(() -> context().raiseError(new IllegalStateException("the database is gone")));
            later.start();
        }
    }
}
