package hostile;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * A HostileTask that wants to know where its records are: it writes each number and its topic into the file `notes`. With the
 * behaviour `calls` it writes its polls and commits there as well.
 */
public class NotedTask extends HostileTask {
    private Path notes;

    @Override
    public void start(Map<String, String> properties) {
        notes = Path.of(properties.get("notes"));
        super.start(properties);
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        if (how().equals("calls")) note("poll after " + number);
        return super.poll();
    }

    @Override
    public void commit() {
        if (how().equals("calls")) note("commit at " + context.offsetStorageReader().offset(sourcePartition).get("number"));
        halt("commit");
        if (is("commit")) HostileConnector.die(how());
    }

    private String details(RecordMetadata place) {
        if (!how().equals("details")) return "";
        return " " + place.serializedKeySize() + " " + place.serializedValueSize() + " " + place.partition() + " " + place.offset()
            + " " + place.timestamp();
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata place) {
        note(record.value() + " " + (place == null ? null : place.topic() + details(place)));
        halt("commitRecord");
        if (!is("commitRecord")) return;
        if (how().equals("error")) throw new StackOverflowError("too deep");
        HostileConnector.die(how());
    }

    private void note(String line) {
        try {
            Files.writeString(notes, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
