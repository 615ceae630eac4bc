package fencepost.host;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Prints its calls: the worker asks for a poll before and after it stops the task. */
public final class StoppedTask extends SourceTask {
    public static void main(String[] args) throws Exception {
        TaskSession task = new TaskSession(Wire.JSON.readTree(OpenTransaction.REQUEST.formatted("fencepost.host.StoppedTask")));
        ObjectNode answer = Wire.JSON.createObjectNode();
        task.call("start", answer, answer);
        for (String call : List.of("poll", "stop", "poll")) task.call(call, Wire.JSON.createObjectNode().put("ms", 10_000), answer);
        task.close();
    }

    @Override
    public void start(Map<String, String> properties) {
        System.out.println("start");
    }

    @Override
    public List<SourceRecord> poll() {
        System.out.println("poll");
        return List.of();
    }

    @Override
    public void stop() {
        System.out.println("stop");
    }

    @Override
    public String version() {
        return "0";
    }
}
