package hostile;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.CumulativeCount;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts in the source partition `counter` from the committed number up to `limit`, one record in each poll; after 3 not
 * before the file `gate` is there.
 */
public class HostileTask extends SourceTask {
    private static final Logger LOG = LoggerFactory.getLogger(HostileTask.class);
    Map<String, String> config;
    Map<String, String> sourcePartition;
    long number;
    private boolean failed;
    private Sensor polls;
    private int calls;

    static {
        HostileConnector.asked("task.static");
    }

    public HostileTask() {
        HostileConnector.asked("task.constructor");
    }

    @Override
    public void initialize(SourceTaskContext given) {
        HostileConnector.asked("task.initialize");
        super.initialize(given);
    }

    @Override
    public String version() {
        return "6.6.6";
    }

    @Override
    public void start(Map<String, String> properties) {
        config = properties;
        HostileConnector.halt(config, "task.start");
        sourcePartition = Map.of("counter", config.getOrDefault("counter", "c"));
        Map<String, Object> offset = context.offsetStorageReader().offset(sourcePartition);
        // A Long, as from Java Connect, also if an Integer was stored: this cast fails for anything else.
        number = offset == null ? 0 : (Long) offset.get("number");
        LOG.info("begins after {}", number);
        System.out.println("printed by the task");
        metrics();
        if (is("start")) HostileConnector.die(how());
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        polls.record();
        LOG.debug("is polled after {}", number);
        halt("poll");
        if (is("poll") && number >= 3 && first()) HostileConnector.die(how());
        if (how().startsWith("retry") && !failed) {
            failed = true;
            throw how().equals("retry") ? new RetriableException("not now") : new TimeoutException("not now");
        }
        if (number >= Long.parseLong(config.getOrDefault("limit", "10"))) {
            Thread.sleep(10);
            boolean asks = how().equals("late");
            if (asks) context.transactionContext().commitTransaction();
            return asks && is("poll") ? List.of() : null;
        }
        if (number == 3 && config.containsKey("gate") && !Files.exists(Path.of(config.get("gate")))) {
            Thread.sleep(10);
            return null;
        }
        if (how().equals("odd")) return number++ == 0 ? OddOffsets.records(config.get("topic")) : null;
        number++;
        halt("read");
        ConnectHeaders headers = new ConnectHeaders();
        headers.addLong("number", number);
        Map<String, Object> offset = how().equals("lists") ? Map.of("number", List.of(1)) : Map.of("number", number);
        String topic = how().equals("topicless") ? null : config.get("topic");
        SourceRecord record = new SourceRecord(sourcePartition, offset, topic, null, Schema.STRING_SCHEMA,
            config.getOrDefault("counter", "k") + number, Schema.INT64_SCHEMA, number, timestamp(), headers);
        if (how().equals("boundaries")) {
            if (number % 4 == 0) context.transactionContext().commitTransaction(number % 8 == 0 ? equal(record) : record);
            if (number % 4 == 2) context.transactionContext().abortTransaction(record);
        }
        if (how().equals("batches")) {
            if (number % 4 == 0) context.transactionContext().commitTransaction();
            if (number % 4 == 2) context.transactionContext().abortTransaction();
        }
        int every = Integer.parseInt(config.getOrDefault("boundaries", "0"));
        if (every > 0 && number % every == 0) context.transactionContext().commitTransaction(record);
        return List.of(record);
    }

    /** A gauge that may hang, a count by a sensor, and a text, which is no number. */
    private void metrics() {
        PluginMetrics metrics = context.pluginMetrics();
        LinkedHashMap<String, String> tags = new LinkedHashMap<>(Map.of("counter", "c"));
        metrics.addMetric(metrics.metricName("last-number", "The last number.", tags), (Gauge<Long>) (config, now) -> {
            if (how().equals("mute")) HostileConnector.hang();
            return number;
        });
        metrics.addMetric(metrics.metricName("mood", "A text.", tags), (Gauge<String>) (config, now) -> "good");
        polls = metrics.addSensor("polls");
        polls.add(metrics.metricName("polls-total", "Polls.", tags), new CumulativeCount());
    }

    private static SourceRecord equal(SourceRecord record) {
        return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
            record.value(), record.timestamp(), record.headers());
    }

    private Long timestamp() {
        return config.containsKey("timestamp") ? Long.parseLong(config.get("timestamp")) + number : null;
    }

    /** Whether the marker of this run is not there yet. */
    final boolean first() {
        if (!config.containsKey("marker")) return true;
        try {
            Files.createFile(Path.of(config.get("marker")));
            return true;
        } catch (java.io.IOException there) {
            return false;
        }
    }

    /** As `HostileConnector.halt`, at every third call of the step. */
    final void halt(String step) {
        if (step.equals(config.get("halt")) && ++calls % 3 == 0) HostileConnector.halt(config, step);
    }

    final boolean is(String where) {
        return config.getOrDefault("behaviour", "").endsWith("in task." + where);
    }

    final String how() {
        return config.getOrDefault("behaviour", "").split(" ")[0];
    }

    @Override
    public void stop() {
        HostileConnector.halt(config, "task.stop");
        if (is("stop")) HostileConnector.die(how());
    }
}
