-- Three roles with no more rights than they need, for one database. Run it once as an administrator, in that database:
--
--     psql -h db.example.net -U postgres -d content_ai -f deploy/postgres-roles.sql
--     psql ... -c '\password content_ai_owner'      -- and the same for the other two
--
-- content_ai_owner   makes and migrates the tables: `content-ai database upgrade`, before a new version is started
-- content_ai_worker  does all work: process, dev, worker, queue ...; makes and changes no table
-- content_ai_reader  looks only: queue status, list and show, worker list, plan
--
-- Idempotent. A manifest that an earlier version made in `public` is found there: name that schema below in its place.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['content_ai_owner', 'content_ai_worker', 'content_ai_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', name);
        END IF;
    END LOOP;
END
$$;

-- The manifest, and Dagster's records (used with dagster_storage = "postgres").
CREATE SCHEMA IF NOT EXISTS content_ai AUTHORIZATION content_ai_owner;
CREATE SCHEMA IF NOT EXISTS dagster_records AUTHORIZATION content_ai_owner;

GRANT USAGE ON SCHEMA content_ai, dagster_records TO content_ai_worker, content_ai_reader;

-- What is there already.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA content_ai, dagster_records TO content_ai_worker;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA content_ai, dagster_records TO content_ai_worker;
GRANT SELECT ON ALL TABLES IN SCHEMA content_ai, dagster_records TO content_ai_reader;

-- What the owner makes from now on.
ALTER DEFAULT PRIVILEGES FOR ROLE content_ai_owner IN SCHEMA content_ai, dagster_records
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO content_ai_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE content_ai_owner IN SCHEMA content_ai, dagster_records
    GRANT USAGE ON SEQUENCES TO content_ai_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE content_ai_owner IN SCHEMA content_ai, dagster_records
    GRANT SELECT ON TABLES TO content_ai_reader;

-- Before Postgres 15 everybody could make tables here.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
