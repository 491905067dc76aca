-- What the run's model calls came to, as JSON, so that a list of runs needs no journal. Empty: nothing yet.
ALTER TABLE runs ADD COLUMN totals BLOB NOT NULL DEFAULT x'';
