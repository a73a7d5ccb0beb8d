-- What a person decided about a call, as JSON: the id of the request, its state, by whom, when, why.
ALTER TABLE calls ADD COLUMN approval TEXT;
