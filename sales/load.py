import pandas as pd


def load(path):
    df = pd.read_csv(path)
    df['date'] = pd.to_datetime(df['date'])
    return df
