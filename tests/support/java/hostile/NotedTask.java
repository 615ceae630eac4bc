package hostile;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.source.SourceRecord;

/** A HostileTask that wants to know where its records are: it writes each number and its topic into the file `notes`. */
public class NotedTask extends HostileTask {
    private Path notes;

    @Override
    public void start(Map<String, String> properties) {
        notes = Path.of(properties.get("notes"));
        super.start(properties);
    }

    @Override
    public void commit() {
        halt("commit");
        if (is("commit")) HostileConnector.die(how());
    }

    private String sizes(RecordMetadata place) {
        return how().equals("sizes") ? " " + place.serializedKeySize() + " " + place.serializedValueSize() : "";
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata place) {
        try {
            String line = record.value() + " " + (place == null ? null : place.topic() + sizes(place)) + "\n";
            Files.writeString(notes, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        halt("commitRecord");
        if (!is("commitRecord")) return;
        if (how().equals("error")) throw new StackOverflowError("too deep");
        HostileConnector.die(how());
    }
}
