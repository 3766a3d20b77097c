-- For which user something was kept, and with which call, so that it goes when that user's calls are erased. Of the
-- resources that are there already nobody knows that: they are in the results that gave them.
ALTER TABLE notes ADD COLUMN user_id text COLLATE "C";
ALTER TABLE notes ADD COLUMN seq bigint;
DELETE FROM notes WHERE kind = 'mcp resource';
