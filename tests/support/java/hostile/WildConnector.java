package hostile;

import java.lang.ref.WeakReference;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.Task;

/** A HostileConnector whose tasks do more harm, and that may report an error of its own while it runs. */
public class WildConnector extends HostileConnector {
    private static final List<WeakReference<WildConnector>> MADE = new CopyOnWriteArrayList<>();

    private int asked;

    public WildConnector() {
        MADE.add(new WeakReference<>(this));
    }

    @Override
    public Config validate(Map<String, String> properties) {
        if (!properties.getOrDefault("wild", "").equals("count")) return super.validate(properties);
        System.gc();
        long left = MADE.stream().filter(one -> !one.refersTo(null)).count();
        return new Config(List.of(new ConfigValue("wild", "count", List.of(), List.of(left + " of " + MADE.size()))));
    }

    /** One task more each time, if it is to grow, up to `most`; or a configuration that says what the offset reader answers. */
    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> one = super.taskConfigs(most);
        if (one.get(0).getOrDefault("wild", "").equals("offsets")) return List.of(ReadOffsets.of(context().offsetStorageReader()));
        if (!one.get(0).getOrDefault("wild", "").equals("grow")) return one;
        if (++asked < most) new Thread(() -> context().requestTaskReconfiguration()).start();
        return Collections.nCopies(asked, one.get(0));
    }

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
        if (properties.getOrDefault("wild", "").equals("interrupted")) Thread.currentThread().interrupt();
    }
}
