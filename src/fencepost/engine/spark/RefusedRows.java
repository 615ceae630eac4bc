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

/**
 * Evaluates expressions for rows in Spark's driver, one row after the other, and continues after a row that fails. Janino,
 * the compiler within Spark, compiles this class; it does not support generic types.
 */
public final class RefusedRows {
    /**
     * Applies the projections to each row, until `limit` rows have failed or the rows end. Returns the failed rows as a JSON
     * array: for each the row's number, from the column `numberColumn`, and its exception followed by the exception's causes.
     * Each exception has its class, its message, its SQL state and the fragment of SQL that caused it; the last two may be
     * null.
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
