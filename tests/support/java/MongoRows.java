import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.Scanner;
import org.bson.Document;

/** A server that speaks MongoDB's protocol. It writes its address; each number of its input becomes a document of shop.rows. */
public final class MongoRows {
    public static void main(String[] args) {
        MongoServer server = new MongoServer(new MemoryBackend());
        server.enableOplog();
        String address = server.bindAndGetConnectionString();
        System.out.println(address);
        try (MongoClient client = MongoClients.create(address)) {
            MongoCollection<Document> rows = client.getDatabase("shop").getCollection("rows");
            for (Scanner input = new Scanner(System.in); input.hasNextInt(); ) rows.insertOne(new Document("_id", input.nextInt()));
        }
        server.shutdownNow();
    }
}
