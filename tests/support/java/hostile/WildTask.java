package hostile;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A HostileTask that counts up to `limit`, one number in each poll, and does at number 3 what its property `wild` says. */
public class WildTask extends HostileTask {
    private static final Logger LOG = LoggerFactory.getLogger(WildTask.class);

    @Override
    public List<SourceRecord> poll() {
        // Several tasks would read one source partition.
        boolean isIdle = config.getOrDefault("wild", "").equals("grow");
        if (isIdle || number >= Long.parseLong(config.getOrDefault("limit", "5"))) {
            pause();
            return null;
        }
        if (config.getOrDefault("wild", "").equals("slow")) for (int i = 0; i < 20; i++) pause();
        number++;
        if (number != 3) return List.of(record(number, null, "" + number));
        return wild();
    }

    private List<SourceRecord> wild() {
        switch (config.getOrDefault("wild", "")) {
            case "crash" -> crash();
            case "threads" -> {
                for (int i = 0; i < 20; i++) new Thread(WildTask::spin, "left over").start();
            }
            case "property" -> System.setProperty("hostile.seen", config.get("name.of.mine"));
            case "read property" -> {
                return List.of(record(number, null, "" + System.getProperty("hostile.seen")));
            }
            case "integers" -> {
                return List.of(record((int) number, null, "3"));
            }
            case "null" -> {
                return Arrays.asList(null, record(number, null, "3"), null);
            }
            case "partition" -> {
                return List.of(record(number, 99, "3"));
            }
            case "huge" -> {
                return List.of(record(number, null, "x".repeat(Integer.parseInt(config.get("size")))));
            }
            case "lines" -> {
                for (int i = 0; i < 20_000; i++) (i % 2 == 0 ? System.out : System.err).println("noise " + i);
            }
            case "one line" -> {
                String noise = "noise".repeat(1 << 20);
                for (int i = 0; i < 3; i++) System.out.print(noise);
                System.out.println();
            }
            case "tell" -> tell(config.get("told"));
            case "long error" -> throw new IllegalStateException("no ".repeat(2 << 20));
            case "mute error" -> throw new MuteException();
            case "context" -> {
                return List.of(record(number, null, "" + (context.transactionContext() != null)));
            }
            case "offsets" -> {
                return List.of(record(number, null, ReadOffsets.of(context.offsetStorageReader()).toString()));
            }
            case "jackson" -> {
                return List.of(record(number, null, new ObjectMapper().version().toString()));
            }
            case "beans" -> {
                return List.of(record(number, null, beans()));
            }
            case "values" -> {
                return values();
            }
            case "resources" -> {
                return List.of(record(number, null, firstCodec()));
            }
            default -> { }
        }
        return List.of(record(number, null, "3"));
    }

    /** The MBeans of plugins' metrics, each with its attributes. */
    private static String beans() {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        TreeSet<String> found = new TreeSet<>();
        try {
            for (ObjectName name : server.queryNames(new ObjectName("kafka.connect:type=plugins,*"), null)) {
                TreeSet<String> attributes = new TreeSet<>();
                for (MBeanAttributeInfo one : server.getMBeanInfo(name).getAttributes()) attributes.add(one.getName());
                found.add(name + " " + String.join(" ", attributes));
            }
        } catch (JMException error) {
            throw new IllegalStateException(error);
        }
        return String.join("\n", found);
    }

    /** Bytes, a buffer that was partly read, a struct, and an object that Connect has no schema for. */
    private List<SourceRecord> values() {
        Schema schema = SchemaBuilder.struct().field("a", Schema.INT32_SCHEMA).build();
        ByteBuffer buffer = ByteBuffer.wrap(new byte[] {9, 1, -2});
        buffer.get();
        Object strange = new Object() {
            @Override
            public String toString() {
                return "strange";
            }
        };
        return List.of(
            record(Schema.BYTES_SCHEMA, new byte[] {0, -1}), record(Schema.BYTES_SCHEMA, buffer),
            record(schema, new Struct(schema).put("a", 1)), record(null, strange));
    }

    private SourceRecord record(Schema schema, Object value) {
        return new SourceRecord(sourcePartition, Map.of("number", number), config.get("topic"), schema, value);
    }

    /** The jar of the first service file that code finds which looks for a codec of Jackson. */
    private static String firstCodec() {
        try {
            String all = "META-INF/services/com.fasterxml.jackson.core.ObjectCodec";
            String first = Thread.currentThread().getContextClassLoader().getResources(all).nextElement().getPath();
            return first.replaceAll(".*/([^/]+\\.jar)!.*", "$1");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void tell(String told) {
        System.out.println("it was printed: " + told);
        LOG.info("it was logged: {}", told);
        System.out.println("it has " + told.length() + " characters");
        if (config.containsKey("exits")) System.exit(3);
        throw new IllegalStateException("it was thrown: " + told);
    }

    private SourceRecord record(Object position, Integer partition, String value) {
        Map<String, Object> offset = new HashMap<>();
        offset.put("number", position);
        return new SourceRecord(sourcePartition, offset, config.get("topic"), partition, Schema.STRING_SCHEMA, value);
    }

    /** An exception that cannot say what it is. */
    private static final class MuteException extends RuntimeException {
        @Override
        public String toString() {
            throw new IllegalStateException("no words");
        }
    }

    /** Write to an address that nobody has: the JVM dies of SIGSEGV. Once, if there is a marker. */
    private void crash() {
        if (!first()) return;
        try {
            Class<?> type = Class.forName("sun.misc.Unsafe");
            Field field = type.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            type.getMethod("putAddress", long.class, long.class).invoke(field.get(null), 0L, 0L);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void spin() {
        while (true) pause();
    }

    private static void pause() {
        try {
            Thread.sleep(10);
        } catch (InterruptedException ignored) {
            // It goes on.
        }
    }
}
