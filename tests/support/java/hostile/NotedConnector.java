package hostile;

import org.apache.kafka.connect.connector.Task;

/** A HostileConnector with tasks that want to know where their records are. */
public class NotedConnector extends HostileConnector {
    @Override
    public Class<? extends Task> taskClass() {
        super.taskClass();
        return NotedTask.class;
    }
}
