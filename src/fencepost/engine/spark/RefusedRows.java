import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.QueryContext;
import org.apache.spark.QueryContextType;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.Function1;
import scala.collection.Iterator;

/** Evaluates rows in the driver, and goes on after an error. Spark's Janino compiles it, which knows no generic types. */
public final class RefusedRows {
    /**
     * Takes rows until so many of them are refused, and returns these as JSON: each has its number, which is in a column of the
     * rows, and the exception with its causes.
     */
    public String find(Iterator rows, List projections, int numberColumn, int limit) throws Exception {
        List found = new ArrayList();
        while (found.size() < limit && rows.hasNext()) {
            InternalRow row = (InternalRow) rows.next();
            Long number = Long.valueOf(row.getLong(numberColumn));
            try {
                Object made = row;
                for (Object projection : projections) {
                    made = ((Function1) projection).apply(made);
                }
            } catch (Throwable error) {
                found.add(Arrays.asList(new Object[] {number, causes(error)}));
            }
        }
        return new ObjectMapper().writeValueAsString(found);
    }

    private static List causes(Throwable error) {
        List found = new ArrayList();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            String state = cause instanceof SparkThrowable ? ((SparkThrowable) cause).getSqlState() : null;
            found.add(Arrays.asList(new Object[] {cause.getClass().getName(), cause.getMessage(), state, fragment(cause)}));
        }
        return found;
    }

    private static String fragment(Throwable error) {
        if (error instanceof SparkThrowable) {
            for (QueryContext context : ((SparkThrowable) error).getQueryContext()) {
                if (context.contextType() == QueryContextType.SQL) {
                    return context.fragment();
                }
            }
        }
        return null;
    }
}
