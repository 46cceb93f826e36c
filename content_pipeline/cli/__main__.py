from content_pipeline.cli.main import main

main()
