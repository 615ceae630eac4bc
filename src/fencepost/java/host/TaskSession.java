package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * A task, from its start to its stop. All its methods are called on its own thread, except `stop`.
 *
 * <p>The worker waits for a poll for a limited time, and then asks for the same poll again, so that it can commit
 * meanwhile. If a task is interested in commits, its next poll begins only when the worker asks for it: after the
 * commit of the previous poll, if there was one. Otherwise the next poll begins at once, while the worker writes.
 */
final class TaskSession implements Session, SourceTaskContext {
    private static final Logger LOG = LoggerFactory.getLogger(TaskSession.class);

    private static final Set<String> LOOK_AT_LATEST = Set.of(
        "io.debezium.connector.common.BaseSourceTask", "io.debezium.connector.postgresql.PostgresConnectorTask");

    private final Events events = new Events();
    private final Offsets offsets = new Offsets(events);
    private final OwnMetrics metrics;
    private final String name;
    private final PluginLoader loader;
    private final SourceTask task;
    private final Map<String, String> config;
    private final RecordPipeline pipeline;
    private final Boundaries boundaries;
    private final boolean keeps;
    private final boolean keepsLatest;
    private final boolean looksAtCommits;
    private final boolean pollsAhead;
    private final ExecutorService thread;
    private final Deque<RecordColumns> ready = new ArrayDeque<>();
    private final Uncommitted uncommitted;
    private Future<List<RecordColumns>> poll;
    private long batches;
    private volatile boolean stopped;

    TaskSession(JsonNode request) throws Exception {
        loader = PluginLoader.of(request);
        Thread.currentThread().setContextClassLoader(loader);
        name = request.get("name").asText();
        thread = Executors.newSingleThreadExecutor(work -> {
            Thread one = new Thread(() -> {
                MDC.put("task", name);
                work.run();
            }, "task-" + name);
            one.setContextClassLoader(loader);
            one.setDaemon(true);
            return one;
        });
        task = loader.create(request.get("class").asText(), SourceTask.class);
        config = Wire.properties(request.get("config"));
        boundaries = switch (request.get("boundary").asText()) {
            case "connector" -> new Transactions();
            case "source" -> new SourceTransactions();
            default -> Boundaries.OF_WORKER;
        };
        keeps = Questions.overridesCommitRecord(task.getClass());
        keepsLatest = keeps && looksAtLatest(task.getClass());
        uncommitted = new Uncommitted(keepsLatest);
        looksAtCommits = keeps || Questions.overridesCommit(task.getClass());
        pollsAhead = !looksAtCommits || knowsWhatIsCommitted(task.getClass());
        // Created last, so that nothing has to be closed if an earlier step fails.
        metrics = new OwnMetrics(request.get("owner").asText(), request.get("task").asText());
        try {
            pipeline = new RecordPipeline(request.get("pipeline"), metrics);
        } catch (Throwable error) {
            metrics.close();
            throw error;
        }
    }

    /**
     * Whether `commit` of a task refers only to the records that `commitRecord` was called for, and not to all records
     * that `poll` has returned.
     */
    private static boolean knowsWhatIsCommitted(Class<?> task) {
        return task.getName().startsWith("io.debezium.") || task.getName().startsWith("org.apache.kafka.connect.mirror.");
    }

    /**
     * Whether `commitRecord` only needs the latest offset of each source partition. Debezium's task for Spanner has its
     * own `commitRecord`, and does not count. Fewer kept records save work: most of the objects that the garbage
     * collector copies are records that wait for a commit.
     */
    private static boolean looksAtLatest(Class<?> task) throws NoSuchMethodException {
        return LOOK_AT_LATEST.contains(task.getMethod("commitRecord", SourceRecord.class, RecordMetadata.class).getDeclaringClass().getName());
    }

    @Override
    public RecordColumns call(String operation, JsonNode request, ObjectNode answer) throws Exception {
        switch (operation) {
            case "start" -> {
                onThread(() -> {
                    task.initialize(this);
                    task.start(config);
                    return null;
                });
                answer.put("commits", looksAtCommits);
            }
            case "poll" -> {
                return next(request.get("ms").asLong());
            }
            case "commit" -> {
                long batch = request.get("batch").asLong();
                // Take the records now: those that are polled before the task's thread runs `commit` belong to the next
                // commit.
                List<Uncommitted.Batch> committed = uncommitted.take(batch);
                thread.execute(() -> commit(committed, request.path("written")));
            }
            case "metrics" -> metrics.describe(answer);
            case "stop" -> {
                MDC.put("task", name);
                Thread.currentThread().setContextClassLoader(loader);
                stopped = true;
                pipeline.stop();
                task.stop();
            }
            default -> throw new IllegalArgumentException(operation);
        }
        return null;
    }

    private <T> T onThread(Callable<T> work) throws Exception {
        return result(thread.submit(work));
    }

    private static <T> T result(Future<T> future) throws Exception {
        try {
            return future.get();
        } catch (ExecutionException error) {
            throw unwrapped(error);
        }
    }

    private static Exception unwrapped(ExecutionException error) {
        if (error.getCause() instanceof Exception cause) return cause;
        if (error.getCause() instanceof Error cause) throw cause;
        return error;
    }

    /** Returns the next records; null if none arrive within the given time. For one connection at a time. */
    private RecordColumns next(long ms) throws Exception {
        if (ready.isEmpty()) {
            if (poll == null) poll = thread.submit(this::polled);
            try {
                ready.addAll(poll.get(ms, TimeUnit.MILLISECONDS));
                poll = null;
            } catch (TimeoutException later) {
                return null;
            } catch (ExecutionException error) {
                poll = null;
                throw unwrapped(error);
            }
        }
        RecordColumns records = ready.poll();
        if (records == null) return null;
        if (pollsAhead && ready.isEmpty()) poll = thread.submit(this::polled);
        records.number = ++batches;
        if (keeps) uncommitted.add(records);
        if (!keeps || keepsLatest) records.polled.clear();
        return records;
    }

    private List<RecordColumns> polled() throws InterruptedException {
        // The poll of a stopped task may start its work again, and nobody would stop it.
        if (stopped) return List.of();
        List<SourceRecord> records = task.poll();
        if (records == null) records = List.of();
        // A task that defines its transactions may end a transaction by a poll without records.
        if (records.isEmpty() && !(boundaries instanceof Transactions)) return List.of();
        return pipeline.columns(records, boundaries);
    }

    /** `written` has the places of the written records, in runs, if the worker was asked to keep them. */
    private void commit(List<Uncommitted.Batch> committed, JsonNode written) {
        Iterator<Place> places = places(written);
        for (Uncommitted.Batch batch : committed) {
            int i = 0, row = 0;
            for (SourceRecord record : batch.polled()) {
                RecordMetadata place = null;
                if (batch.written().get(i++)) {
                    if (places.hasNext()) place = places.next().of(batch, row);
                    row++;
                }
                committed(record, place);
            }
        }
        try {
            task.commit();
        } catch (Throwable error) {
            LOG.error("commit() of the task failed; the transaction is committed nevertheless", error);
        }
    }

    /**
     * Calls commitRecord. As in Kafka Connect, an error affects only this record: the others still get their own
     * places.
     */
    private void committed(SourceRecord record, RecordMetadata place) {
        try {
            task.commitRecord(record, place);
        } catch (Throwable error) {
            LOG.error("commitRecord() of the task failed; its records are committed nevertheless", error);
        }
    }

    /** Where a record was written. The partition is null if a transform in the worker dropped the record. */
    private record Place(TopicPartition partition, long offset, long timestamp) {
        RecordMetadata of(Uncommitted.Batch batch, int row) {
            if (partition == null) return null;
            return new RecordMetadata(partition, offset, 0, timestamp, batch.keySizes()[row], batch.valueSizes()[row]);
        }
    }

    private static Iterator<Place> places(JsonNode written) {
        return IntStream.range(0, written.path("count").size()).boxed().flatMap(run -> {
            int count = written.get("count").get(run).asInt();
            int topic = written.get("topic").get(run).asInt();
            if (topic < 0) return Collections.nCopies(count, new Place(null, -1, -1)).stream();
            String name = written.get("topics").get(topic).asText();
            TopicPartition partition = new TopicPartition(name, written.get("partition").get(run).asInt());
            long first = written.get("offset").get(run).asLong();
            long timestamp = written.get("timestamp").get(run).asLong();
            return IntStream.range(0, count).mapToObj(row -> new Place(partition, first + row, timestamp));
        }).iterator();
    }

    @Override
    public void close() throws Exception {
        try {
            onThread(() -> {
                pipeline.close();
                return null;
            });
        } catch (RejectedExecutionException closed) {
            return;
        } finally {
            thread.shutdown();
            events.close();
            metrics.close();
        }
        while (!thread.awaitTermination(1, TimeUnit.HOURS)) LOG.warn("The thread of the task does not end");
    }

    @Override
    public Events events() {
        return events;
    }

    @Override
    public Map<String, String> configs() {
        return config;
    }

    @Override
    public OffsetStorageReader offsetStorageReader() {
        return offsets;
    }

    @Override
    public TransactionContext transactionContext() {
        return boundaries instanceof Transactions own ? own : null;
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return metrics.of();
    }
}
